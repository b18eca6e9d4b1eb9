"""Predicted memory of exported models, compared with what each worker's heap measured: with a backward that is whole,
and with one that a schedule splits, where the first half carries tensors to the second."""

import json
import pathlib
import subprocess
import sys

import pytest
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import pipewright as pw
from pipewright._program import program

torch.set_num_threads(1)
WIDTH, LENGTH, WORDS = 64, 32, 100


class Decoder(nn.Module):
    """Blocks whose first half of backward carries much: norms, attention and a gated unit."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.1, "gelu", batch_first=True)
                                     for _ in range(4)])

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Pictures(nn.Module):
    """Convolutions, whose output is much larger than their weights."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(16, 10)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU(),
                                                   nn.Conv2d(16, 16, 3, padding=1)) for _ in range(4)])

    def forward(self, images):
        x = self.stem(images)
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return self.head(x.mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.blocks = nn.ModuleList([nn.LSTM(WIDTH, WIDTH, batch_first=True) for _ in range(2)])

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)[0]
        return self.head(x)


def words(size, length=LENGTH):
    return torch.randint(0, WORDS, (size, length)), torch.randint(0, WORDS, (size, length))


def pictures(size):
    return torch.randn(size, 3, 16, 16), torch.randint(0, 10, (size,))


MODELS = {"decoder": (Decoder, words), "pictures": (Pictures, pictures),
          "recurrent": (Recurrent, lambda size: words(size, 8))}


def with_schedule(plan, name, file):
    """The plan's stages in the order of another schedule."""
    plan = json.loads(pathlib.Path(plan.file).read_text())
    text = subprocess.run([program()[0], "schedule", name, "--stages", "2", "--microbatches",
                           str(plan["minibatch"] // plan["microbatch"]), "--text"], capture_output=True, text=True, check=True)
    plan["schedule_name"], plan["schedule"] = name, text.stdout.splitlines()
    file.write_text(json.dumps(plan))
    return file


@pytest.mark.parametrize("name", MODELS)
def test_memory_is_predicted(name, tmp_path):
    torch.manual_seed(1)
    make, draw = MODELS[name]
    model = pw.export(make(), draw(3), loss="cross_entropy")
    plan = pw.plan(model, cluster="2xcpu", minibatch=32, microbatch=4, planner="balanced", method="sync")
    for schedule in "1f1b", "zb-h1", "gpipe":
        run = pw.train(model, with_schedule(plan, schedule, tmp_path / "plan.json"), data=[draw(32)], steps=4,
                       optimizer="adamw", lr=1e-3, progress=False)
        errors = [run.comparison[f"memory_bytes_{worker}"]["error_percent"] for worker in range(2)]
        print(name, schedule, [round(error, 1) for error in errors])
        assert max(map(abs, errors)) < 5, schedule


def test_few_microbatches():
    """The sums of gradients are made while the activations of all microbatches are there."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    model = pw.export(net, (torch.randn(3, 64), torch.randint(0, 10, (3,))), loss="cross_entropy")
    for microbatch in 32, 16:
        plan = pw.plan(model, cluster="2xcpu", minibatch=32, microbatch=microbatch, planner="balanced", method="sync")
        run = pw.train(model, plan, data=[(torch.randn(32, 64), torch.randint(0, 10, (32,)))], steps=4,
                       optimizer="adamw", progress=False)
        errors = [run.comparison[f"memory_bytes_{worker}"]["error_percent"] for worker in range(2)]
        print(microbatch, [round(error, 1) for error in errors])
        assert max(map(abs, errors)) < 5, microbatch
