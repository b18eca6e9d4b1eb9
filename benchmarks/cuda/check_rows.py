#!/usr/bin/env python3
"""The tables of tools/cuda-check, from what `pipewright train --json` reports.

    check_rows.py schedule PLAN NAME
        gives the plan the schedule of that name, whose text form is read from standard input
    check_rows.py add ROWS FOLDER MODEL MINIBATCH MICROBATCH KIND WORKERS STEPS [OPTION [SCHEDULE]]
        prints a row of FOLDER/json and FOLDER/run, and adds it to the file ROWS; fails if its
        loss or weights differ from those of a row that must have the same
    check_rows.py ranks FOLDER NAME
        prints steps of FOLDER/threads.json and FOLDER/ranks.json; fails if their weights differ
    check_rows.py resumed FOLDER  the same of a training that broke off and was resumed
    check_rows.py head            prints the head of the rows
    check_rows.py errors ROWS     how far predictions are off
    check_rows.py torch TORCH     prints what torch_gpt2.py and torch_pipelining.py found
    check_rows.py goals ROWS HANDOVER TORCH
        measured beside what was to be reached and PyTorch's best; HANDOVER is of
        handover_benchmark --json, TORCH may be empty
"""
import hashlib
import json
import pathlib
import sys

ASYNCHRONOUS = ("stash", "2bw", "pipemare")

HEAD = (f"{'model':10} {'mini x':8} {'device':11} {'workers':>7} {'step, ms':>9} {'predicted':>9} "
        f"{'error':>8} {'MB':>9} {'predicted':>9} {'error':>8}  {'last loss':11} given as     us     x")


def read(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def schedule(plan, name):
    file = pathlib.Path(plan)
    fields = json.loads(file.read_text())
    fields.update(schedule_name=name, schedule=sys.stdin.read().splitlines())
    file.write_text(json.dumps(fields, indent=1) + "\n")


def bits_of(row):
    """Rows of which these are equal have the same bits; None: no other row has."""
    if "--fast-kernels" in row["option"] or row["schedule"] in ASYNCHRONOUS:
        return None
    options = [each for each in row["option"].split() if each != "--no-graphs"]
    return [row[key] for key in ("model", "minibatch", "microbatch", "steps")] + options


def check_bits(rows, row):
    if bits_of(row) is None or not pathlib.Path(rows).exists():
        return
    for other in read(rows):
        if bits_of(other) != bits_of(row):
            continue
        different = [key for key in ("loss", "weights") if other[key] != row[key]]
        if different:
            sys.exit(f"OTHER {' and '.join(different)} than {other['workers']} on {other['kind']}: "
                     f"loss {row['loss']}, not {other['loss']}")


def add(rows, folder, model, minibatch, microbatch, kind, workers, steps, option="", schedule=""):
    report = json.loads(pathlib.Path(folder, "json").read_text())
    if "comparison" not in report:
        sys.exit(f"{model} {minibatch} x {microbatch} {kind} {workers}  not predicted: {report}")
    cluster = pathlib.Path(folder, "run", "cluster.json")
    here = json.loads(cluster.read_text())["kinds"][0] if cluster.exists() else {}
    compared, count = report["comparison"], int(workers)
    memory = max((compared[f"memory_bytes_{w}"] for w in range(count)),
                 key=lambda each: each["measured"])
    row = {
        "model": model, "minibatch": int(minibatch), "microbatch": int(microbatch), "kind": kind,
        "workers": count, "steps": int(steps), "option": option, "schedule": schedule,
        "loss": report["loss"], "weights": digest(weights(report) if "checkpoint" in report else {}),
        "step": compared["step_seconds"], "memory": memory,
        "busy": max(compared[f"busy_seconds_{w}"]["measured"] for w in range(count)),
    }
    step = row["step"]
    notes = [note for note in (option, schedule) if note]
    print(f"{model:10} {minibatch + ' x ' + microbatch:8} {kind:11} {workers:>7} "
          f"{step['measured'] * 1e3:9.3f} {step['predicted'] * 1e3:9.3f} "
          f"{step['error_percent']:6.1f} % {memory['measured'] / 1e6:9.1f} "
          f"{memory['predicted'] / 1e6:9.1f} {memory['error_percent']:6.1f} %  "
          f"{report['loss']:<11.9g} {'kernels' if 'no_graphs' in report else 'graphs':8} "
          f"{here.get('action_overhead', 0) * 1e6:6.1f} {1 + here.get('layer_overhead', 0):5.2f}"
          + "".join("  " + note for note in notes))
    check_bits(rows, row)
    with open(rows, "a") as file:
        print(json.dumps(row), file=file)


def digest(files):
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(name.encode() + files[name])
    return whole.hexdigest() if files else ""


def weights(report):
    return {path.name: path.read_bytes()
            for path in pathlib.Path(report["checkpoint"]).glob("*.safetensors")}


def compared(folder):
    """The reports of the two trainings, and whether they have the same weights."""
    one, other = (json.loads(pathlib.Path(folder, file).read_text())
                  for file in ("threads.json", "ranks.json"))
    return one, other, weights(one) == weights(other) and bool(weights(one))


def ranks(folder, name):
    one, several, is_same = compared(folder)
    step = several.get("comparison", {}).get("step_seconds")
    print(f"{name:10} one process {one['step_seconds'] * 1e3:8.3f} ms   two "
          f"{several['step_seconds'] * 1e3:8.3f} ms   "
          + (f"predicted {step['predicted'] * 1e3:8.3f} {step['error_percent']:6.1f} %   " if step
             else "not predicted   ")
          + f"{'the same' if is_same else 'OTHER'} weights   {several['between_ranks']}")
    if not is_same:
        sys.exit(1)


def resumed(folder):
    is_same = compared(folder)[2]
    print(f"resumed: {'the same' if is_same else 'OTHER'} weights")
    if not is_same:
        sys.exit(1)


def percentile(ascending, percent):
    """On the line between the two that are next to it, as experiments/sailor has it."""
    place = (len(ascending) - 1) * percent / 100
    below, rest = int(place), place % 1
    return ascending[below] + rest * (ascending[min(below + 1, len(ascending) - 1)]
                                      - ascending[below])


def errors(rows):
    def table(name, key):
        off = sorted(abs(row[key]["error_percent"]) for row in read(rows))
        print(f"{len(off)} predicted {name}: median {percentile(off, 50):.1f} % off, "
              f"95th percentile {percentile(off, 95):.1f} %, worst {off[-1]:.1f} %")
    table("steps", "step")
    table("peaks of memory", "memory")


def torch(path):
    for cell in read(path):
        memory = f"{cell['gib']:6.2f} GiB" if "gib" in cell else ""
        print(f"{cell['work']:14} {cell['way']:20} {cell['ms']:8.1f} ms, fastest "
              f"{cell['fastest_ms']:8.1f}   {memory}".rstrip())


def goals(rows, handover, torch_cells):
    known = {}
    for row in read(rows):
        if not row["schedule"]:
            known[row["model"], row["minibatch"], row["microbatch"], row["kind"], row["workers"],
                  row["option"]] = row
    cells = read(torch_cells)
    ms = lambda row: row["step"]["measured"] * 1e3

    def best_of_torch(work, key="ms", ranks=None):
        """PyTorch's best figure for this work and how it was reached, as text."""
        found = [(cell[key], cell["way"]) for cell in cells
                 if cell["work"] == work and key in cell
                 and (ranks is None or cell["way"] == f"pipelining, {ranks} ranks")]
        return "   torch %.1f (%s)" % min(found) if found else ""

    def line(work, value, unit, goal, torch_best="", at_least=False):
        fits = value >= goal if at_least else value <= goal
        print(f"{work:58} {value:8.1f} {unit:3} {'>=' if at_least else '<='} {goal:5.1f}"
              f"{torch_best}{'' if fits else '   missed'}")

    def step(goal, torch_best, *key):
        if row := known.get(key):
            option = " " + key[5] if key[5] else ""
            line(f"{key[0]}, {key[1]} x {key[2]}, {key[4]} x {key[3]}{option}", ms(row), "ms", goal,
                 torch_best)

    def shares(name, minibatch, microbatch, count):
        kind, microbatches = f"cuda/{count}", minibatch // microbatch
        pipeline = known.get((name, minibatch, microbatch, kind, count, ""))
        alone = known.get((name, minibatch, microbatch, kind, 1, ""))
        if not pipeline or not alone:
            return
        useful = microbatches / (microbatches + count - 1)  # the schedule's
        line(f"{count} x {kind}: of the busiest share without waits",
             100 * pipeline["busy"] / useful / pipeline["step"]["measured"], "%", 95, at_least=True)
        line(f"{count} x {kind}: of one share's time divided by {count}",
             100 * ms(alone) / count / useful / ms(pipeline), "%", 88, at_least=True)

    for workers, goal in ((2, 3.8), (4, 2.3)):
        step(goal, best_of_torch("width16:4", ranks=workers),
             "width16", 128, 4, "cuda-stream", workers, "")
    with open(handover, encoding="utf-8") as file:
        for way, seconds in json.load(file).items():
            goal = {"kernel_by_kernel": 4, "recorded": 1}[way]
            for key, what in (("action", "empty action"), ("further_action", "further empty action")):
                line(f"{what}, 4 x cuda-stream, {way}", seconds[key] * 1e6, "us",
                     goal, best_of_torch("width16:4", "us_per_action", ranks=4))
    plain, exact = "--no-masters --fast-kernels", "--no-masters"
    for goal, microbatch, kind, workers in ((140, 1, "cuda", 1), (110, 1, "cuda-stream", 4),
                                            (67, 8, "cuda", 1)):
        key = "gpt2", 32, microbatch, kind, workers
        step(goal, best_of_torch(f"gpt2-small:{microbatch}"), *key, plain)
        if (*key, plain) in known and (*key, exact) in known:
            line(f"  the same with deterministic kernels ({ms(known[(*key, exact)]):.1f} ms)",
                 100 * ms(known[(*key, exact)]) / ms(known[(*key, plain)]), "%", 115)
    for workers in (2, 4):
        step(85, best_of_torch("gpt2-small:4", ranks=workers),
             "gpt2", 32, 4, "cuda-stream", workers, "")
    for count in (2, 4):
        shares("blocks12", 32, 4, count)
    if row := known.get(("gpt2-medium", 32, 8, "cuda", 1, "--no-masters")):
        line("memory, gpt2-medium, 32 x 8 --no-masters", row["memory"]["measured"] / 2**30, "GiB",
             8.5, best_of_torch("gpt2-medium:8", "gib"))


def main():
    command = sys.argv[1]
    if command == "head":
        print(HEAD)
    else:
        {"schedule": schedule, "add": add, "ranks": ranks, "resumed": resumed, "errors": errors,
         "torch": torch, "goals": goals}[command](*sys.argv[2:])


if __name__ == "__main__":
    main()
