#!/usr/bin/env python3
"""When a method falls behind: the training loss along the way, of every rate
and K that was tried with the first seed for all steps.

    experiments/convergence/losses.py FOLDER TASK

FOLDER is what `build/convergence --only TASK --results FOLDER` keeps. A figure
is the mean over the twentieth of the steps before it. text-19-losses.txt is what
it printed of that task, whose tables are in tables.txt.
"""

import json
import pathlib
import re
import sys

SHARES = (10, 20, 30, 40, 60, 80, 100)  # per cent of the steps


def numbers_of(training):
    return {name: float(number) for name, number in
            re.findall(r", ([a-z-]+) ([\d.e+-]+)(?=,|$)", training)}


def trainings(folder, task):
    """Those of the task with the first seed and the most steps."""
    kept = []
    for file in pathlib.Path(folder).glob("*.json"):
        found = json.loads(file.read_text(encoding="utf-8"))
        numbers = numbers_of(found["training"])
        if found["training"].startswith(task + " ") and numbers["seed"] == 1:
            kept.append((found["training"].split(", ")[1], numbers, found))
    if not kept:
        sys.exit(f"{folder}: no training of {task}")
    steps = max(numbers["steps"] for _, numbers, _ in kept)
    return sorted(((arm, -numbers["rate"], numbers["annealing"], found)
                   for arm, numbers, found in kept if numbers["steps"] == steps),
                  key=lambda each: each[:3])


def loss_after(losses, steps, share):
    end = steps * share // 100
    part = losses[end - steps // 20:end]
    return f"{sum(part) / len(part):.2f}" if len(losses) >= end else "-"


def main(folder, task):
    rows = trainings(folder, task)
    steps = max(len(found["losses"]) for *_, found in rows)
    print(f"{task}, {steps} steps: training loss after\n{'method':20} {'rate':>5} "
          f"{'K':>5} " + " ".join(f"{share:3} %" for share in SHARES))
    for arm, rate, annealing, found in rows:
        k = f"{100 * annealing:.0f} %" if annealing else ""
        print(f"{arm:20} {-rate:5} {k:>5} " + " ".join(
            f"{loss_after(found['losses'], steps, share):>5}"
            for share in SHARES))
    for origin in sorted({found["origin"] for *_, found in rows}):
        arms = sorted({arm for arm, *_, found in rows
                       if found["origin"] == origin})
        print(f"trained {origin}: {', '.join(arms)}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
