#!/usr/bin/env python3
"""torch.distributed.pipelining on the work of pipewright_peer.

    torch_pipelining.py residual|gpt WIDTH LAYERS MICROBATCHES SAMPLES WORKERS

starts one process per worker (gloo, one thread each) and speaks the same
protocol: a line "SCHEDULE STEPS" on standard input is answered with one line of
JSON. Schedules: gpipe, 1f1b, interleaved, interleaved-zb, zbv.
"""

import json
import os
import resource
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as functional
from torch.distributed import pipelining

VOCABULARY, SEQUENCE, HEADS = 512, 128, 4


class Block(nn.Module):
    """x + W2 gelu(W1 x)"""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(x)))


class DecoderBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        samples, positions, width = x.shape
        q, k, v = (
            part.view(samples, positions, HEADS, width // HEADS).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(samples, positions, width))
        y = functional.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + self.down(y)


class Embedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(SEQUENCE, width) * 0.02)

    def forward(self, tokens):
        return self.tokens(tokens) + self.positions


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, x):
        return self.head(self.norm(x))


def pieces(kind, width, layers, num_stages):
    """The model as a list of stages of equally many blocks."""
    make = Block if kind == "residual" else DecoderBlock
    stages = []
    for s in range(num_stages):
        count = layers * (s + 1) // num_stages - layers * s // num_stages
        parts = [make(width) for _ in range(count)]
        if kind == "gpt" and s == 0:
            parts.insert(0, Embedding(width))
        if kind == "gpt" and s == num_stages - 1:
            parts.append(Head(width))
        stages.append(nn.Sequential(*parts))
    return stages


def loss_of(kind):
    if kind == "residual":
        return nn.MSELoss()
    return lambda y, target: functional.cross_entropy(y.flatten(0, 1), target.flatten())


class Pipeline:
    """One schedule, this process's stages of it, and its optimizer."""

    SINGLE = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B}
    MULTI = {
        "interleaved": pipelining.ScheduleInterleaved1F1B,
        "interleaved-zb": pipelining.ScheduleInterleavedZeroBubble,
        "zbv": pipelining.ScheduleZBVZeroBubble,
    }

    def __init__(self, name, case, rank):
        kind, width, layers, microbatches, _, workers = case
        device = torch.device("cpu")
        torch.manual_seed(1)
        if name in self.SINGLE:
            self.indices, num_stages = [rank], workers
        else:
            num_stages = 2 * workers
            last = 2 * workers - 1 - rank if name == "zbv" else rank + workers
            self.indices = [rank, last]
        modules = pieces(kind, width, layers, num_stages)
        self.modules = [modules[i] for i in self.indices]
        stages = [
            pipelining.PipelineStage(
                module, i, num_stages, device,
                input_args=(example,), output_args=module(example))
            for module, i in zip(self.modules, self.indices)
            for example in [example_of(case, i)]
        ]
        if name in self.SINGLE:
            self.schedule = self.SINGLE[name](stages[0], microbatches, loss_of(kind))
        else:
            self.schedule = self.MULTI[name](stages, microbatches, loss_of(kind))
        self.has_input, self.has_loss = 0 in self.indices, num_stages - 1 in self.indices
        parameters = [p for module in self.modules for p in module.parameters()]
        self.optimizer = torch.optim.SGD(parameters, lr=1e-3)

    def step(self, x, target):
        arguments = (x,) if self.has_input else ()
        losses = [] if self.has_loss else None
        self.schedule.step(
            *arguments, target=target if self.has_loss else None, losses=losses
        )
        self.optimizer.step()
        self.optimizer.zero_grad()


def batch_of(case):
    kind, width, _, microbatches, samples, _ = case
    torch.manual_seed(7)
    count = microbatches * samples
    if kind == "residual":
        return torch.randn(count, width), torch.randn(count, width)
    tokens = torch.randint(VOCABULARY, (count, SEQUENCE))
    return tokens, torch.randint(VOCABULARY, (count, SEQUENCE))


def example_of(case, stage):
    """A microbatch as that stage gets it."""
    kind, width, _, _, samples, _ = case
    if stage == 0:
        return batch_of(case)[0][:samples]
    shape = (samples, width) if kind == "residual" else (samples, SEQUENCE, width)
    return torch.zeros(shape, requires_grad=True)


def worker(rank, case, orders, answers):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=case[-1])
    x, target = batch_of(case)
    pipelines = {}
    while True:
        name, steps = orders[rank].get()
        if name is None:
            break
        try:
            if name not in pipelines:
                pipelines[name] = Pipeline(name, case, rank)
                pipelines[name].step(x, target)
                pipelines[name].step(x, target)
            dist.barrier()
            start = time.perf_counter()
            for _ in range(steps):
                pipelines[name].step(x, target)
            dist.barrier()
            ms = (time.perf_counter() - start) / steps * 1e3
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            answers.put({"ms": ms, "memory": memory})
        except Exception as error:  # a schedule that cannot do this case
            answers.put({"error": f"{type(error).__name__}: {error}"})
    dist.destroy_process_group()


def main():
    kind = sys.argv[1]
    case = (kind, *(int(text) for text in sys.argv[2:7]))
    workers = case[-1]
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(29500 + os.getpid() % 2000))
    context = mp.get_context("spawn")
    orders = [context.Queue() for _ in range(workers)]
    answers = context.Queue()
    processes = [
        context.Process(target=worker, args=(rank, case, orders, answers), daemon=True)
        for rank in range(workers)
    ]
    for process in processes:
        process.start()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        name, steps = line.split()
        for queue in orders:
            queue.put((name, int(steps)))
        all_answers = [answers.get(timeout=300) for _ in range(workers)]
        wrong = [a["error"] for a in all_answers if "error" in a]
        if wrong:
            print(json.dumps({"error": wrong[0]}), flush=True)
            os._exit(1)  # the others may be waiting for it
        print(
            json.dumps(
                {
                    "ms": max(a["ms"] for a in all_answers),
                    "memory": sum(a["memory"] for a in all_answers),
                }
            ),
            flush=True,
        )
    for queue in orders:
        queue.put((None, 0))
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
