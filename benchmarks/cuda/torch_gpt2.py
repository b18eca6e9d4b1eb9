#!/usr/bin/env python3
"""GPT-2 in plain PyTorch on one GPU: the rival of tools/cuda-check.

Pure bfloat16, untied head, SGD without momentum, PyTorch's own choice of
attention, and the words padded to a multiple of 64, which makes it faster.
A minibatch is 32 x 1024 tokens.

    torch_gpt2.py CELL...        CELL is SIZE:MICROBATCH:WAY, such as small:8:compile

Ways are eager, compile and reduce-overhead (torch.compile's mode, with CUDA
graphs). Each cell is a process: all compile at once, then they are measured one
after the other. Prints a line of JSON for each cell: milliseconds per minibatch (the
median, and the fastest) and the peak of allocated memory.
"""
import json
import multiprocessing
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional

SIZES = {"small": (768, 12, 12), "medium": (1024, 16, 24)}  # width, heads, blocks
WORDS, TOKENS, MINIBATCH = 50304, 1024, 32
WARM_UP, MEASURED = 4, 12
MODES = {"compile": "default", "reduce-overhead": "reduce-overhead"}  # of torch.compile


class Embedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(WORDS, width), nn.Embedding(TOKENS, width)

    def forward(self, tokens):
        return self.tokens(tokens) + self.positions.weight


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        samples, tokens, _ = x.shape
        heads = [part.view(samples, tokens, self.heads, -1).transpose(1, 2)
                 for part in self.qkv(self.norm1(x)).chunk(3, dim=2)]
        y = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).flatten(2))
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.words = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

    def forward(self, x):
        return self.words(self.norm(x))


def gpt2_layers(size):
    width, heads, blocks = SIZES[size]
    return [Embedding(width), *(Block(width, heads) for _ in range(blocks)), Head(width)]


def loss_of(logits, targets):
    return functional.cross_entropy(logits.view(-1, WORDS), targets.view(-1))


class Gpt2(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layers = nn.Sequential(*gpt2_layers(size))

    def forward(self, tokens, targets):
        return loss_of(self.layers(tokens), targets)


def prepared_step(size, microbatch, way):
    """A function that trains on one minibatch."""
    torch.manual_seed(0)
    model = Gpt2(size).to("cuda", torch.bfloat16)
    has_graphs = way == "reduce-overhead"
    run = model if way == "eager" else torch.compile(model, dynamic=False, mode=MODES[way])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randint(WORDS, (2, MINIBATCH, TOKENS), device="cuda")
    microbatches = list(zip(*(part.split(microbatch) for part in data)))
    for parameter in model.parameters() if has_graphs else ():
        parameter.grad = torch.zeros_like(parameter)  # graphs add to it where it is

    def step():
        for tokens, targets in microbatches:
            if has_graphs:
                torch.compiler.cudagraph_mark_step_begin()
            (run(tokens, targets) * (microbatch / MINIBATCH)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not has_graphs)
        torch.cuda.synchronize()

    return step


def measured_times(step):
    times = []
    for i in range(WARM_UP + MEASURED):
        start = time.perf_counter()
        step()
        if i >= WARM_UP:
            times.append((time.perf_counter() - start) * 1e3)
    return times


def measure(cell, all_compiled, gpu):
    size, microbatch, way = cell.split(":")
    try:
        step = prepared_step(size, int(microbatch), way)
        for _ in range(WARM_UP):
            step()
    except BaseException:
        all_compiled.abort()  # the others shall not wait for this one
        raise
    all_compiled.wait()
    with gpu:
        torch.cuda.reset_peak_memory_stats()
        times = measured_times(step)
    result = {"work": f"gpt2-{size}:{microbatch}", "way": way,
              "ms": statistics.median(times), "fastest_ms": min(times)}
    if way != "reduce-overhead":  # what its graphs hold is not counted
        result["gib"] = torch.cuda.max_memory_allocated() / 2**30
    print(json.dumps(result), flush=True)


def main():
    context = multiprocessing.get_context("spawn")
    all_compiled, gpu = context.Barrier(len(sys.argv) - 1), context.Lock()
    cells = [context.Process(target=measure, args=(cell, all_compiled, gpu))
             for cell in sys.argv[1:]]
    for cell in cells:
        cell.start()
    for cell in cells:
        cell.join()
    sys.exit(any(cell.exitcode for cell in cells))


if __name__ == "__main__":
    main()
