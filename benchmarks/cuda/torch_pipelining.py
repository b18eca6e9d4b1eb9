#!/usr/bin/env python3
"""torch.distributed.pipelining on one GPU: the rival of tools/cuda-check.

One rank of a 1F1B pipeline, started by torchrun over NCCL, beside ours on
streams of the GPU. NCCL before 2.30 takes two ranks on one GPU only if they say
that they are on two hosts (NCCL_HOSTID). Rank 0 prints a line of JSON:
milliseconds per minibatch (the median, and the fastest).

    torch_pipelining.py WORK MICROBATCHES MICROBATCH       WORK is width16 or gpt2-small
"""
import json
import os
import statistics
import sys

import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn import functional

import torch_gpt2


class NarrowBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(x)))


def width16(samples):
    """Layers, what each weighs when they are divided, input, target and loss."""
    layers = [nn.Linear(16, 16), *(NarrowBlock(16) for _ in range(8))]
    return (layers, [0.1] + [1] * 8, torch.randn(samples, 16), torch.randint(16, (samples,)),
            functional.cross_entropy)


def gpt2_small(samples):
    tokens, targets = torch.randint(torch_gpt2.WORDS, (2, samples, torch_gpt2.TOKENS))
    layers = [layer.to(torch.bfloat16) for layer in torch_gpt2.gpt2_layers("small")]
    return layers, [0.3] + [1] * 12 + [7], tokens, targets, torch_gpt2.loss_of


def stage_of(layers, weights, rank, ranks):
    """The layers whose middle falls into this rank's part of all weights."""
    end, mine = 0, []
    for layer, weight in zip(layers, weights):
        middle, end = end + weight / 2, end + weight
        if min(ranks - 1, int(middle / sum(weights) * ranks)) == rank:
            mine.append(layer)
    return nn.Sequential(*mine)


def main():
    work, microbatches, microbatch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.cuda.set_device(0)
    distributed.init_process_group("nccl")
    torch.manual_seed(0)
    samples = microbatches * microbatch
    layers, weights, x, target, loss = {"width16": width16, "gpt2-small": gpt2_small}[work](samples)
    module = stage_of(layers, weights, rank, ranks).to("cuda")
    x, target = x.to("cuda"), target.to("cuda")
    schedule = Schedule1F1B(PipelineStage(module, rank, ranks, torch.device("cuda")), microbatches,
                            loss_fn=loss)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)

    def step():
        is_last = rank + 1 == ranks
        schedule.step(*([x] if rank == 0 else []), **({"target": target} if is_last else {}))
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        distributed.barrier()

    times = torch_gpt2.measured_times(step)
    if rank == 0:
        print(json.dumps({"work": f"{work}:{microbatch}", "way": f"pipelining, {ranks} ranks",
                          "ms": statistics.median(times), "fastest_ms": min(times),
                          "us_per_action": statistics.median(times) * 1e3 / (2 * microbatches)}),
              flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
