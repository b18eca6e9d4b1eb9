#!/usr/bin/env python3
"""What momentum allows with and without a delay, on the quadratic of Lemma 1.

Prints the largest rate at which f(w) = w^2 / 2 stays stable where forward reads
weights that are `delay` steps old, as an effective rate: rate / (1 - momentum),
the step that a constant gradient leads to. With a discrepancy of 1 the gradient
is twice that of the old weights less that of the newest (PipeMare's model of a
backward that reads other weights than its forward); T2 corrects the newest.
"""
import math

STEPS = 4000


def is_stable(rate, momentum, delay, discrepancy, corrected):
    weights = [1.0] * (delay + 1)
    step = velocity = 0.0
    decay = math.exp(-2 / delay) if delay else 0.0
    for _ in range(STEPS):
        newest = weights[-1] - (delay * velocity if corrected else 0.0)
        gradient = (1 + discrepancy) * weights[-1 - delay] - discrepancy * newest
        step = momentum * step - rate * gradient
        velocity = decay * velocity + (1 - decay) * step
        weights.append(weights[-1] + step)
        if abs(weights[-1]) > 1e4:
            return False
    middle = max(map(abs, weights[STEPS // 2:STEPS // 2 + 200]))
    return max(map(abs, weights[-200:])) <= max(middle, 1e-3)


def largest_rate(momentum, delay, discrepancy, corrected):
    low, high = 0.0, 64.0
    for _ in range(24):
        middle = (low + high) / 2
        if is_stable(middle * (1 - momentum), momentum, delay, discrepancy, corrected):
            low = middle
        else:
            high = middle
    return low


def main():
    print("delay  discrepancy  T2   effective rate: momentum 0  momentum 0.9")
    for delay in (0, 1, 2, 4, 13, 26):
        for discrepancy, corrected in ((0, False), (1, False), (1, True)):
            if delay == 0 and discrepancy:
                continue
            rates = [largest_rate(m, delay, discrepancy, corrected) for m in (0, 0.9)]
            print(f"{delay:5}  {discrepancy:11}  {'yes' if corrected else 'no':3}"
                  f"  {rates[0]:26.3f}  {rates[1]:12.3f}")


if __name__ == "__main__":
    main()
