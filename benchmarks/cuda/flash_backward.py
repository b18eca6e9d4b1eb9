#!/usr/bin/env python3
"""What the backward of attention costs on a GPU when its bits are promised.

Prints, for GPT-2 small's heads and sequences at two microbatch sizes, the
microseconds of one flash backward within a CUDA graph, fast and with
deterministic algorithms, whether a hundred repetitions gave the same bits,
and the kernels that it consists of. Then the same beside samples without
positions, which make the parts fewer in which the deterministic kernel adds
up the gradient of the queries, and by how much results differ from those
without.

    flash_backward.py
"""
import statistics

import torch
from torch.profiler import ProfilerActivity, profile

HEADS, POSITIONS, FEATURES = 12, 1024, 64
CALLS, REPEATS = 20, 10


def tensors_of(samples):
    """Query, key, value and the gradient of the output: the same in each call."""
    torch.manual_seed(samples)
    shape = (samples, POSITIONS, HEADS, FEATURES)
    return [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4)]


def forward_of(query, key, value):
    return torch.ops.aten._flash_attention_forward(
        query, key, value, None, None, POSITIONS, POSITIONS, 0.0, True, False)


def backward_of(samples):
    query, key, value, of_output = tensors_of(samples)
    output, sums, seed, unused, _ = forward_of(query, key, value)
    return lambda: torch.ops.aten._flash_attention_backward(
        of_output, query, key, value, output, sums, None, None, POSITIONS, POSITIONS,
        0.0, True, seed, unused)


def backward_beside_empty(samples, empty):
    """The same by the kernel for samples of different lengths, some of which are empty."""
    def rows(tensor):
        return tensor.flatten(0, 1)
    query, key, value, of_output = tensors = tensors_of(samples)
    output, sums, seed, unused, _ = forward_of(query, key, value)
    starts = torch.tensor([0] * empty + [POSITIONS * i for i in range(samples + 1)],
                          dtype=torch.int32, device="cuda")
    sums = sums.transpose(0, 1).flatten(1)
    return lambda: torch.ops.aten._flash_attention_backward(
        rows(of_output), *(rows(tensor) for tensor in tensors[:3]), rows(output), sums,
        starts, starts, POSITIONS, POSITIONS, 0.0, True, seed, unused)


def largest_difference(work, other):
    return max((a.float() - b.float().view(a.shape)).abs().max().item()
               for a, b in zip(work(), other()))


def microseconds(work):
    """The median of a call in a graph of many."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            work()
    times = []
    for _ in range(REPEATS):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / CALLS)
    return statistics.median(times)


def has_same_bits(work):
    first = work()
    return all(torch.equal(a, b) for _ in range(100) for a, b in zip(first, work()))


def print_kernels(work):
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(REPEATS):
            work()
        torch.cuda.synchronize()
    for kernel in sorted(recorded.key_averages(), key=lambda k: -k.device_time_total):
        if kernel.device_time_total > 0:
            name = kernel.key.removeprefix("void ").split("<")[0]
            print(f"    {kernel.device_time_total / REPEATS:7.1f} us  {name}")


def main():
    if not torch.cuda.is_available():
        print("no GPU")
        return
    torch.utils.deterministic.fill_uninitialized_memory = False
    for samples in (1, 8):
        work = backward_of(samples)
        for deterministic in (False, True):
            torch.use_deterministic_algorithms(deterministic)
            bits = "the same bits" if has_same_bits(work) else "other bits each time"
            print(f"{samples} x {POSITIONS}, {'deterministic' if deterministic else 'fast'}: "
                  f"{microseconds(work):.1f} us, {bits}", flush=True)
            print_kernels(work)
    for empty in (0, 1, 2, 3):
        beside = backward_beside_empty(1, empty)
        bits = "the same bits" if has_same_bits(beside) else "other bits each time"
        print(f"1 x {POSITIONS}, deterministic, {empty} empty: {microseconds(beside):.1f} us, "
              f"{bits}, off by at most {largest_difference(backward_of(1), beside):.4f}",
              flush=True)
        print_kernels(beside)


main()
