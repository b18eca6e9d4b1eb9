#!/usr/bin/env python3
"""GPT-2 small in plain PyTorch on one GPU: the rival of tools/cuda-check.

Pure bfloat16, untied head, SGD without momentum, PyTorch's own choice of
attention. Prints milliseconds per minibatch and the peak of allocated memory:

    torch_gpt2.py MINIBATCH MICROBATCH [--compile]
"""
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, BLOCKS, VOCAB, TOKENS = 768, 12, 12, 50257, 1024
WARM_UP, MEASURED = 3, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        samples, tokens, _ = x.shape
        heads = [part.view(samples, tokens, HEADS, -1).transpose(1, 2)
                 for part in self.qkv(self.norm1(x)).chunk(3, dim=2)]
        y = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).flatten(2))
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(BLOCKS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight
        x = self.head(self.norm(self.blocks(x)))
        return functional.cross_entropy(x.view(-1, VOCAB), targets.view(-1))


def main():
    minibatch, microbatch = int(sys.argv[1]), int(sys.argv[2])
    model = Gpt().to("cuda", torch.bfloat16)
    run = torch.compile(model) if "--compile" in sys.argv else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randint(VOCAB, (2, minibatch, TOKENS), device="cuda")

    def step():
        for tokens, targets in zip(*(part.split(microbatch) for part in data)):
            (run(tokens, targets) * (microbatch / minibatch)).backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()

    times = []
    for i in range(WARM_UP + MEASURED):
        start = time.perf_counter()
        step()
        if i >= WARM_UP:
            times.append(time.perf_counter() - start)
    print(f"torch {torch.__version__}{' compiled' if '--compile' in sys.argv else ''}, "
          f"{minibatch} x {TOKENS} tokens, microbatch {microbatch}: "
          f"{statistics.median(times) * 1e3:.1f} ms, "
          f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
