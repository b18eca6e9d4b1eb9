"""Profiles, plans and training from Python: what the program answers, and the weights that come back."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import pipewright as pw
import small_networks
from make_fixtures import MICROBATCHES, RATE, SAMPLES, STEPS, trained

torch.set_num_threads(1)
torch.backends.mkldnn.set_flags(False)
OPTIONS = dict(steps=STEPS, minibatch=MICROBATCHES * SAMPLES, microbatch=SAMPLES, optimizer="sgd", lr=RATE, momentum=0,
               progress=False)


def exported(name, seed=7):
    make, loss = small_networks.ALL[name]
    torch.manual_seed(seed)
    module, draw = make()
    return module, draw, loss, pw.export(module, draw(3), loss=loss)


@pytest.mark.parametrize("name", sorted(small_networks.ALL))
def test_weights_come_back_with_equal_bits(name):
    module, draw, loss, model = exported(name)
    samples = draw(STEPS * MICROBATCHES * SAMPLES)
    one = pw.train(model, data=[samples], workers=1, **OPTIONS)
    two = pw.train(model, data=[samples], workers=2, **OPTIONS)
    assert one.losses == two.losses and len(one.losses) == STEPS
    for key, tensor in one.state_dict().items():
        assert torch.equal(tensor, two.state_dict()[key]), key
    if name == "language":  # dropout: PyTorch draws other numbers
        module.load_state_dict(one.state_dict())
        return
    expected = {key: tensor.clone() for key, tensor in trained(module, loss, samples)[1].items()}
    module.load_state_dict(two.state_dict())  # strict: all names, and no others
    for key, tensor in module.state_dict().items():
        assert torch.equal(tensor, expected[key]), key


def test_training_takes_a_profile_as_it_is():
    _, draw, _, model = exported("mixed")
    profile = pw.profile(model, microbatches=[SAMPLES], workers=2)
    plan = pw.plan(profile, cluster="2xcpu", minibatch=MICROBATCHES * SAMPLES, microbatch=SAMPLES)
    run = pw.train(model, plan, data=[draw(STEPS * MICROBATCHES * SAMPLES)], profile=profile, steps=STEPS, progress=False)
    assert len(run.losses) == STEPS


def test_training_goes_on_from_given_weights(tmp_path):
    module, draw, loss, model = exported("recurrent")
    samples = draw(STEPS * MICROBATCHES * SAMPLES)
    first = pw.train(model, data=[samples], workers=2, **OPTIONS)
    second = pw.train(model, data=[samples], workers=2, weights=first.folder / "weights.safetensors", **OPTIONS)
    trained(module, loss, samples)
    _, expected = trained(module, loss, samples)
    for key, tensor in second.state_dict().items():
        assert torch.equal(tensor, expected[key]), key


class DropPath(torch.nn.Module):
    """Stochastic depth: a branch is left out for some samples."""

    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x):
        for block in self.blocks:
            x = x + torch.tanh(block(x)) * (torch.rand(x.shape[0], 1) < 0.5)
        return x.square().mean()


def test_random_numbers_depend_on_no_plan():
    model = pw.export(DropPath(), torch.randn(3, 8))
    options = {**OPTIONS, "data": [torch.randn(STEPS * MICROBATCHES * SAMPLES, 8)]}
    one, two = (pw.train(model, workers=workers, **options) for workers in (1, 2))
    assert one.losses == two.losses
    assert all(torch.equal(tensor, two.state_dict()[key]) for key, tensor in one.state_dict().items())
    assert pw.train(model, workers=1, seed=2, **options).losses != one.losses


def test_a_profile_is_measured_planned_and_drawn(tmp_path):
    _, draw, _, model = exported("images")
    profile = pw.profile(model, microbatches=[4])
    assert profile.layers == model.layers and "measured" in repr(profile)
    plan = pw.plan(profile, cluster="2xcpu", minibatch=16, microbatch=4, planner="balanced", method="sync")
    assert plan.minibatch == 16 and plan.simulate()["step_seconds"] == pytest.approx(plan.step_seconds)
    assert plan.svg().startswith("<svg") and plan.svg() in plan._repr_html_()
    plan.save(tmp_path / "plan.json")
    assert pw.simulate(tmp_path / "plan.json", "2xcpu", model=model.file)["step_seconds"] > 0
    run = pw.train(model, plan, data=[draw(64)], steps=2, lr=0.01,
                   progress=False)
    assert run.report["steps"] == 2 and "step_seconds" in run.comparison
    rows = pw.compare(model, cluster="2xcpu", minibatch=16, budget=1)
    assert len(rows) > 3


def test_data_from_loaders_datasets_and_generators():
    _, draw, _, model = exported("recurrent")
    tokens, target = draw(24)
    dataset = torch.utils.data.TensorDataset(tokens, target)
    options = dict(steps=2, minibatch=16, lr=0.01, workers=1, progress=False)
    by_loader = pw.train(model, data=torch.utils.data.DataLoader(dataset, batch_size=5), **options)
    by_dataset = pw.train(model, data=dataset, **options)
    by_names = pw.train(model, data=[{"target": target, "tokens": tokens}], **options)
    assert by_loader.losses == by_dataset.losses == by_names.losses
    with pytest.raises(pw.PipewrightError, match="ends after 24 samples, training needs 32"):
        pw.train(model, data=(batch for batch in [(tokens, target)]), **options)
    with pytest.raises(pw.PipewrightError, match="is read once: no step of it can be repeated"):
        pw.train(model, data=dataset, not_finite="skip", **options)
    with pytest.raises(pw.PipewrightError, match="has no tokens"):
        pw.train(model, data=[{"target": target}], **options)
    with pytest.raises(pw.PipewrightError, match="is one tensor; the model takes tokens, target: write data="):
        pw.train(model, data=[tokens], **options)


def test_batches_are_read_while_training_runs_and_no_more_than_needed():
    _, draw, _, model = exported("recurrent")
    samples, drawn = draw(8 * 16), []

    def batches():
        for first in range(0, 10**6, 8):
            drawn.append(first)
            place = first % 128
            yield [tensor[place:place + 8] for tensor in samples]

    options = dict(steps=8, minibatch=16, lr=0.01, workers=2, progress=False)
    endless = pw.train(model, data=batches(), **options)
    assert len(drawn) == 16
    assert endless.losses == pw.train(model, data=[samples], **options).losses
    assert not (endless.folder / "samples.safetensors").exists()


def test_a_run_that_goes_on_reads_the_samples_of_its_steps(tmp_path):
    _, draw, _, model = exported("recurrent")
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*draw(40)), batch_size=7)
    options = dict(data=loader, minibatch=16, lr=0.01, workers=2, progress=False)
    whole = pw.train(model, steps=6, **options)
    pw.train(model, steps=3, run=tmp_path / "run", **options)
    rest = pw.train(model, steps=6, run=tmp_path / "run", resume=True, **options)
    for key, tensor in whole.state_dict().items():
        assert torch.equal(tensor, rest.state_dict()[key]), key


@pytest.mark.parametrize("method", ["sync", "stash", "2bw", "pipemare"])
def test_data_that_ends_too_early_loses_no_step(method, tmp_path):
    _, draw, _, model = exported("recurrent")
    tokens, target = draw(8 * 16)
    options = dict(minibatch=16, microbatch=8, lr=0.01, workers=2, method=method, progress=False)
    samples = [(tokens[first:first + 10], target[first:first + 10]) for first in range(0, 8 * 16, 10)]
    ends = (batch for batch in samples[:9])  # 90 samples: 5 steps
    with pytest.raises(pw.PipewrightError, match="ends after 90 samples, training needs 128.*ended after step [45] of 8"):
        pw.train(model, data=ends, steps=8, run=tmp_path / "run", **options)
    done = [json.loads(line)["step"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()][-1]
    if method == "sync":  # others may need samples of a further step to begin again
        assert done == 5
        short = pw.train(model, data=samples, steps=5, **options).state_dict()
        for key, tensor in load_file(tmp_path / "run" / "weights.safetensors").items():
            assert torch.equal(tensor, short[key]), key
    rest = pw.train(model, data=samples, steps=8, run=tmp_path / "run", resume=True, **options)
    assert rest.report["first_step"] == done and len(rest.losses) == 8
    if method == "sync":
        assert rest.losses == pw.train(model, data=samples, steps=8, **options).losses


def test_what_the_data_raises_comes_back():
    _, draw, _, model = exported("recurrent")
    tokens, target = draw(16)
    options = dict(steps=5, minibatch=16, lr=0.01, workers=1, progress=False)

    def broken():
        yield tokens, target
        yield tokens, target
        raise FileNotFoundError("no third file")

    with pytest.raises(FileNotFoundError, match="no third file") as raised:
        pw.train(model, data=broken(), **options)
    if sys.version_info >= (3, 11):
        assert "ended after step 2 of 5" in raised.value.__notes__[0] and "step 2 are kept in" in raised.value.__notes__[0]
    with pytest.raises(pw.PipewrightError, match="16 of tokens, 15 of target"):
        pw.train(model, data=[(tokens, target[:15])], **options)
    with pytest.raises(pw.PipewrightError, match=r"a sample of tokens is .* of float32 in the data"):
        pw.train(model, data=[(tokens.float(), target)], **options)


def test_errors_are_the_programs_own():
    _, draw, _, model = exported("recurrent")
    with pytest.raises(pw.PipewrightError, match="unknown device kind") as refused:
        pw.plan(model, cluster="2xnothing", minibatch=16)
    assert refused.value.code == 78 and "pipewright:" not in str(refused.value)
    with pytest.raises(pw.PipewrightError, match="give a plan"):
        pw.train(model, data=[draw(4)])


INTERRUPTED = """
import sys, pipewright as pw
def say(line): print(line, flush=True)
try:
    pw.train({file!r}, data="synthetic", steps=10**6, minibatch=16, workers=1, run={run!r}, progress=say)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

INTERRUPTED_LOADER = """
import torch, pipewright as pw
from test_training import exported
_, draw, _, model = exported("recurrent")
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*draw(64)), batch_size=8, num_workers=1)
def say(line): print(line, flush=True)
try:
    pw.train(model, data=loader, steps=10**6, minibatch=16, workers=2, run={run!r}, progress=say)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("text", [INTERRUPTED, INTERRUPTED_LOADER], ids=["file", "loader"])
def test_ctrl_c_saves_the_run(text, tmp_path):
    _, _, _, model = exported("recurrent")
    script = text.format(file=model.save(tmp_path / "model"), run=str(tmp_path / "run"))
    folders = [pathlib.Path(pw.__file__).parents[1], pathlib.Path(__file__).parent]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, folders)))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment,
                          start_new_session=True) as running:
        while not (line := running.stdout.readline()).startswith("step 1/"):
            assert line.startswith("measuring")
        os.killpg(running.pid, signal.SIGINT)
        said = running.stdout.read()
    assert "interrupted" in said and running.returncode == 0
    assert list((tmp_path / "run" / "checkpoints").iterdir())
