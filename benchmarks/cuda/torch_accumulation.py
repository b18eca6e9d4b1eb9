#!/usr/bin/env python3
"""What training does beside the layers that a profile times, in plain PyTorch.

24 blocks as one GPU of a tensor-parallel group of four has them in OPT-350M
(float32 with TF32, attention by separate kernels, dropout). Prints, for
microbatches of 1 to 8 samples, milliseconds of one layer alone, 24 times that,
and of a microbatch within a run of eight: with the gradients of all of them
added, and with gradients that are dropped each time. Last, copying all
gradients into one buffer and back, as DeepSpeed does before it sums them.

    torch_accumulation.py [DEVICE [BLOCKS [TOKENS]]]
"""
import statistics
import sys
import time

import torch
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.nn import functional

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"
BLOCKS = int(sys.argv[2]) if len(sys.argv) > 2 else 24
TOKENS = int(sys.argv[3]) if len(sys.argv) > 3 else 2048
WIDTH, GROUP, HEADS = 1024, 4, 4  # heads of one GPU
MICROBATCHES, REPEATS, DROPOUT = 8, 12, 0.1
MASK = torch.ones(TOKENS, TOKENS, device=DEVICE).triu(1).bool()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH // GROUP)
        self.projection = nn.Linear(WIDTH // GROUP, WIDTH)
        self.fc1 = nn.Linear(WIDTH, 4 * WIDTH // GROUP)
        self.fc2 = nn.Linear(4 * WIDTH // GROUP, WIDTH)

    def forward(self, x):
        heads = self.qkv(self.norm1(x)).view(len(x), TOKENS, HEADS, -1)
        q, k, v = heads.transpose(1, 2).chunk(3, -1)
        scores = torch.matmul(q, k.transpose(-1, -2)) * 0.125
        scores = functional.dropout(scores.masked_fill(MASK, -1e4).softmax(-1), DROPOUT)
        y = torch.matmul(scores, v).transpose(1, 2).reshape(len(x), TOKENS, -1)
        x = x + functional.dropout(self.projection(y), DROPOUT)
        y = self.fc2(functional.gelu(self.fc1(self.norm2(x))))
        return x + functional.dropout(y, DROPOUT)


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def milliseconds(work, before=lambda: None):
    """The median; `before` is not timed."""
    times = []
    for _ in range(REPEATS):
        given = before()
        wait()
        start = time.perf_counter()
        work() if given is None else work(given)
        wait()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def run(model, x, adds):
    model.zero_grad(set_to_none=True)
    for _ in range(MICROBATCHES):
        if not adds:
            model.zero_grad(set_to_none=True)
        model(x).sum().backward()


def print_row(model, samples):
    x = torch.randn(samples, TOKENS, WIDTH, device=DEVICE)
    block, h = model[0], x.clone().requires_grad_()

    def output():
        block.zero_grad(set_to_none=True)
        return block(h)
    forward = milliseconds(lambda: block(h))
    backward = milliseconds(lambda y: y.backward(torch.ones_like(y)), output)
    added, dropped = (milliseconds(lambda: run(model, x, adds)) / MICROBATCHES
                      for adds in (True, False))
    print(f"{samples} samples: forward {forward:.2f}, backward {backward:.2f}, all layers alone "
          f"{BLOCKS * (forward + backward):.1f}, in a run {added:.1f}, without adding {dropped:.1f}",
          flush=True)


def copy_gradients(gradients):
    flat = _flatten_dense_tensors(gradients)
    flat.div_(1.0)
    for gradient, copy in zip(gradients, _unflatten_dense_tensors(flat, gradients)):
        gradient.copy_(copy)


def main():
    torch.backends.cuda.matmul.allow_tf32 = True
    model = nn.Sequential(*[Block() for _ in range(BLOCKS)]).to(DEVICE)
    for samples in (1, 2, 4, 8):
        print_row(model, samples)
    gradients = [parameter.grad for parameter in model.parameters()]
    print(f"copying {len(gradients)} gradients into one buffer and back: "
          f"{milliseconds(lambda: copy_gradients(gradients)):.1f}")


main()
