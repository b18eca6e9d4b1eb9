#!/usr/bin/env python3
"""What it costs that a model was exported: exported.py [ROUNDS]

Prints two ratios of one run: the step of GPT blocks that are built in to that of the same blocks exported (the goal is
0.95 or more), and the step of PyTorch eager to ours for a small net (the goal is 4 or more). One worker, one thread.
Seconds are those of the processor, because other programs may use the machine: what a longer run takes more than a short
one, divided by the further steps. Runs take turns, and the least of each counts.
"""

import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import torch
from torch import nn

import pipewright as pw
from pipewright._program import call

WIDTH, HEADS, LENGTH, WORDS, LAYERS = 256, 4, 128, 512, 4
SMALL, SAMPLES, STEPS = 8, 8, 1000


class Block(nn.Module):
    """As the built-in gpt has it."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Small(nn.Module):
    """Eight blocks whose kernels take next to no time."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.LayerNorm(SMALL), nn.Linear(SMALL, SMALL), nn.GELU())
                                     for _ in range(8)])
        self.head = nn.Linear(SMALL, 4)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def processor_seconds(model, profile, steps, minibatch):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call("train", model=model, data="synthetic", profile=profile, steps=steps, minibatch=minibatch, microbatch=minibatch,
         workers=1, optimizer="sgd", lr=1e-3, momentum=0, run=pw._planning.new_file("") + ".run")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def trained(model, steps, minibatch):
    """A function that measures a step of `pipewright train`."""
    profile = pw._planning.new_file(".json")
    call("profile", model, microbatch=minibatch, device="cpu", analytic=True, output=profile)

    def measure():
        short = processor_seconds(model, profile, 1, minibatch)
        return (processor_seconds(model, profile, 1 + steps, minibatch) - short) / steps

    return measure


def eager(module, features, target):
    optimizer = torch.optim.SGD(module.parameters(), 1e-3)
    begin = time.process_time()
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(features), target).backward()
        optimizer.step()
    return (time.process_time() - begin) / STEPS


def least(rounds, *measures):
    best = [float("inf")] * len(measures)
    for _ in range(rounds):
        best = [min(known, measure()) for known, measure in zip(best, measures)]
    return best


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokens = torch.randint(0, WORDS, (4, LENGTH))
    exported = pw._planning.model_name(pw.export(Decoder(), (tokens, tokens.clone()), loss="cross_entropy"))
    built_in = (f"gpt:layers={LAYERS},hidden={WIDTH},heads={HEADS},vocab={WORDS},seq={LENGTH},positions={LENGTH},"
                "dropout=0,flash=true")
    ours, theirs = least(rounds, trained(exported, 20, 4), trained(built_in, 20, 4))
    print(f"GPT, {LAYERS} blocks of {WIDTH}: built in {theirs * 1e3:.1f} ms a step, exported {ours * 1e3:.1f} ms: "
          f"{theirs / ours:.2f} of its speed")
    module = Small()
    features, target = torch.randn(SAMPLES, SMALL), torch.randint(0, 4, (SAMPLES,))
    small = pw._planning.model_name(pw.export(module, (features, target), loss="cross_entropy"))
    ours, theirs = least(rounds, trained(small, STEPS, SAMPLES), lambda: eager(module, features, target))
    print(f"8 blocks of {SMALL}: PyTorch eager {theirs * 1e6:.0f} us a step, exported {ours * 1e6:.0f} us: "
          f"{theirs / ours:.1f} times its rate")


main()
