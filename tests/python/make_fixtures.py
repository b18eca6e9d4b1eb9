"""make_fixtures.py FOLDER: exports the small networks for the C++ tests, with what PyTorch computes for them.

For each network: NAME.json and NAME.safetensors (the exported model), NAME-samples.safetensors (STEPS * MICROBATCHES *
SAMPLES samples per input) and, where nothing is random, NAME-expected.safetensors: the losses of all microbatches and
all weights after STEPS steps of plain SGD.
"""

import pathlib
import sys

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import pipewright as pw
import small_networks

STEPS, MICROBATCHES, SAMPLES, RATE = 3, 4, 4, 0.05


def loss_of(module, loss, batch):
    if isinstance(batch, dict):
        return module(**batch)["loss"]
    *inputs, target = batch
    output = module(*inputs)
    if isinstance(loss, str):
        return torch.nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())
    return loss(output, target)


def row(batch, first):
    if isinstance(batch, dict):
        return {name: tensor[first:first + SAMPLES] for name, tensor in batch.items()}
    return tuple(tensor[first:first + SAMPLES] for tensor in batch)


def trained(module, loss, samples):
    optimizer = torch.optim.SGD(module.parameters(), RATE)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        for m in range(MICROBATCHES):
            one = loss_of(module, loss, row(samples, (step * MICROBATCHES + m) * SAMPLES))
            losses.append(one.detach())
            (one / MICROBATCHES).backward()
        optimizer.step()
    return torch.stack(losses), module.state_dict()


def main(folder):
    torch.backends.mkldnn.set_flags(False)
    torch.set_num_threads(1)
    for name, (make, loss) in small_networks.ALL.items():
        torch.manual_seed(7)
        module, draw = make()
        model = pw.export(module, draw(3), loss=loss)
        model.save(folder / name)
        samples = draw(STEPS * MICROBATCHES * SAMPLES)
        given = samples if isinstance(samples, dict) else dict(zip([i["name"] for i in model.description["inputs"]],
                                                                   samples))
        save_file(given, folder / f"{name}-samples.safetensors")
        if name != "language":
            losses, weights = trained(module, loss, samples)
            expected = {"losses": losses, **{f"after/{key}": tensor.clone() for key, tensor in weights.items()}}
            save_file(expected, folder / f"{name}-expected.safetensors")
        print(name, model)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
