"""Plans for torch.distributed.pipelining: the script that `export --to torch` writes trains as `pipewright train` does."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import pipewright as pw
from pipewright._program import program

torch.set_num_threads(1)
WIDTH, BLOCKS, CLASSES, MINIBATCH, MICROBATCHES, STEPS, RATE = 8, 4, 5, 16, 4, 3, 0.1

# What a person gives to run.py: the same module, loss, optimizer and data as below.
NET = f"""
import sys
sys.path.insert(0, {str(pathlib.Path(__file__).resolve().parent)!r})
import test_exports
make = test_exports.make
"""


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, WIDTH)
        self.blocks = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(BLOCKS)])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, features):
        x = self.embed(features)
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return self.head(x)


def make():
    torch.manual_seed(3)
    module = Net()
    features, target = torch.randn(STEPS * MINIBATCH, 6), torch.randint(0, CLASSES, (STEPS * MINIBATCH,))
    minibatches = [((features[i:i + MINIBATCH],), target[i:i + MINIBATCH])
                   for i in range(0, STEPS * MINIBATCH, MINIBATCH)]
    return module, nn.functional.cross_entropy, lambda parameters: torch.optim.SGD(parameters, RATE), minibatches


def plan_file(folder, model, schedule, workers, firsts):
    """A plan by hand: stages that begin with these layers, in the order of a schedule."""
    text = subprocess.run([program()[0], "schedule", schedule, "--stages", str(workers), "--microbatches",
                           str(MICROBATCHES), "--text"], capture_output=True, text=True, check=True).stdout
    order = text.splitlines()
    starts = [0] + [model.layers.index(name) for name in firsts] + [len(model.layers)]
    owner = {int(stage): int(line.split(":")[0]) for line in order[1:] for stage in re.findall(r"(\d+)F", line)}
    stages = [{"layers": f"{starts[s]}-{starts[s + 1] - 1}", "workers": [owner[s]]} for s in range(len(starts) - 1)]
    path = folder / "plan.json"
    path.write_text(json.dumps({
        "format": "pipewright/plan", "version": 1, "model": model.save(folder / "net"), "planner": "by hand",
        "method": "sync", "minibatch": MINIBATCH, "microbatch": MINIBATCH // MICROBATCHES, "replication": "split",
        "optimizer_words": 0, "devices": list(range(workers)), "stages": stages, "schedule_name": schedule,
        "schedule": order}))
    return path


def exported_net():
    module, loss, _, minibatches = make()
    return pw.export(module, (*minibatches[0][0], minibatches[0][1]), loss=loss)


@pytest.mark.parametrize("schedule, firsts", [("1f1b", ["blocks.1"]), ("interleaved", ["blocks.0", "blocks.2", "blocks.3"]),
                                              ("zb-v", ["blocks.0", "blocks.1", "blocks.3"])])
def test_torch_runs_the_plan_with_our_losses(tmp_path, schedule, firsts):
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    model = exported_net()
    plan = plan_file(tmp_path, model, schedule, 2, firsts)
    export = pw.to_torch(plan, tmp_path / "torch")
    assert export["split_points"] == firsts and len(export["stage_to_rank"]) == len(firsts) + 1
    (tmp_path / "net.py").write_text(NET)
    launch = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
              str(tmp_path / "torch" / "run.py"), str(tmp_path / "net.py")]
    done = subprocess.run(launch, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = [float(value) for value in re.findall(r"^loss (\S+)$", done.stdout, re.MULTILINE)]
    data = [(*inputs, target) for inputs, target in make()[3]]
    ours = pw.train(model, plan, data=data, steps=STEPS, optimizer="sgd", lr=RATE, momentum=0, progress=False).losses
    assert len(theirs) == STEPS
    assert theirs == pytest.approx(ours, rel=1e-6)
    assert theirs[0] != theirs[1]


class Tied(nn.Module):
    """A skip over two modules, and a weight that the first and the last share."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third, self.last = (nn.Linear(4, 4) for _ in range(4))
        self.last.weight = self.first.weight

    def forward(self, x):
        y = self.first(x)
        return self.last(self.third(self.second(torch.relu(y))) + y)


def test_what_torch_cannot_run_is_named(tmp_path):
    torch.manual_seed(3)
    tied = pw.export(Tied(), (torch.randn(4, 4), torch.randn(4, 4)), loss="mse")
    with pytest.raises(pw.PipewrightError, match="passes tensors to the next stage only; third on stage 2 reads") as refused:
        pw.to_torch(plan_file(tmp_path, tied, "1f1b", 4, ["second", "third", "last"]))
    assert refused.value.code == 78
    with pytest.raises(pw.PipewrightError, match="tied weights; first.weight is on stages 0 and 1"):
        pw.to_torch(plan_file(tmp_path, tied, "1f1b", 2, ["second"]))
    with pytest.raises(pw.PipewrightError, match="nothing but the loss"):
        pw.to_torch(plan_file(tmp_path, exported_net(), "1f1b", 2, ["loss"]))
    model = exported_net()
    plan = pw.plan(model, cluster="2xcpu", minibatch=MINIBATCH, microbatch=4, planner="balanced")
    assert pw.to_deepspeed(plan)["bounds"][-1] == BLOCKS + 2
    assert sum(pw.to_torchtitan(plan)["module_fqns_per_model_part"], []) == model.layers[:-1]
    of_profile = pw.plan(pw.profile(model, [4], device="V100"), cluster="2xV100", minibatch=MINIBATCH, microbatch=4,
                         planner="balanced")
    assert pw.to_torch(of_profile)["split_points"][0] in model.layers
    assert any("--num-layers 4" == argument for argument in pw.to_megatron(plan)["arguments"])
