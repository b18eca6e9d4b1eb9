#!/usr/bin/env python3
"""experiments/sailor/run on plans that are damaged: each costs its own row.

    sailor_table.py PIPEWRIGHT [NUMBER_OF_PLANS [SEED]]

Makes copies of the measured plans with a change each, predicts all of them in
one call, and looks for a row of each. Then a few plans whose row is known.
"""

import copy
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

RUN = pathlib.Path(__file__).resolve().parents[2] / "experiments/sailor/run"
PIPEWRIGHT = sys.argv[1]
ODD = (None, True, 0, -1, 0.5, 1e-12, 3, 64, 10**6, 10**30, 1e400, float("nan"),
       "", "RTX-3090", "A100-40", "\u0000/..", [], [[]], {}, {"x": 1})


def require(holds, what):
    if not holds:
        sys.exit(f"sailor_table: {what}")


def sound_plans():
    root = (pathlib.Path(os.environ.get("PIPEWRIGHT_DATA", "/nowhere")) /
            "sailor/sailor/Planner/simulations/validation")
    plans = sorted(root.rglob("plan_config_*.json"))
    if not plans:
        print("skipped: PIPEWRIGHT_DATA has no plans of Sailor")
        sys.exit(0)
    return [json.loads(plan.read_text()) for plan in plans]


def places(value):
    """Every (container, key) in a value."""
    entries = (value.items() if isinstance(value, dict)
               else enumerate(value) if isinstance(value, list) else ())
    for key, member in entries:
        yield value, key
        yield from places(member)


def place(plan, draw):
    """Often a key of the plan itself: most others are numbers of layers."""
    if draw.random() < 0.6:
        return plan, draw.choice(list(plan))
    return draw.choice(list(places(plan)))


def changed(plan, draw):
    plan = copy.deepcopy(plan)
    container, key = place(plan, draw)
    way = draw.randrange(4)
    if way == 0:
        del container[key]
    elif way == 1 and isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))
    elif way == 1:
        container[str(draw.randrange(100))] = container[key]
    else:
        container[key] = copy.deepcopy(draw.choice(ODD))
    return plan


def damaged(plan, draw):
    """The text of a file with a change."""
    text = json.dumps(changed(plan, draw)).encode()
    if draw.random() < 0.9:
        return text
    return draw.choice((
        b"", b"[" + text + b"]", text[:draw.randrange(len(text))], b"\xff\xfe",
        text.replace(b"0", b"\xff", 1), b"[" * 10000, b"null", b"\"plan\""))


def table(*plans):
    done = subprocess.run([sys.executable, RUN, PIPEWRIGHT, *map(str, plans)],
                          capture_output=True, text=True, check=False)
    require(done.returncode == 0 and not done.stderr,
            f"ended with {done.returncode}: {done.stderr}")
    return done.stdout


def row(text, name):
    """The first line about a plan."""
    rows = [line for line in text.split("\n\n")[0].splitlines()[1:]
            if line[12:46].strip() == name]
    require(len(rows) == 1, f"{len(rows)} rows of {name} in\n{text}")
    return rows[0]


def many(folder, plans, number, seed):
    draw = random.Random(seed)
    names = [f"{i:04}" for i in range(number)]
    for name in names:
        (folder / f"plan_config_{name}.json").write_bytes(
            damaged(draw.choice(plans), draw))
    text = table(folder)
    for name in names:
        row(text, name)
    rows = text.split("\n\n")[0].splitlines()[1:]
    require(len(rows) == number, f"{len(rows)} rows of {number} plans")
    refused = sum("not predicted: " in line for line in rows)
    require(0 < refused < number, f"{refused} of {number} plans refused")
    print(f"{number} plans, {refused} of them refused")


def known(folder, plans):
    """What a change to a sound plan makes of its row, and of the errors."""
    def of(change, *absent):
        plan = copy.deepcopy(plans[0])
        plan.update(change)
        for key in absent:
            del plan[key]
        file = folder / "plan_config_it.json"
        file.write_text(json.dumps(plan))
        text = table(file)
        return row(text, "it"), text

    def says(part, line):
        require(part in line, f"not {part!r} in {line}")

    for change, absent in (({"real": 0}, []), ({"real": None}, []),
                           ({}, ["real", "red_grads"])):
        line, text = of(change, *absent)
        says("          -", line)
        says("step: not measured", text)
        says("memory: absolute error", text)
    line, text = of({}, "max_mem")
    says("step: absolute error", text)
    says("memory: not measured", text)
    line, text = of({"mbs": 256, "gbs": 256})
    says("  does not fit", line)
    says("step: absolute error", text)
    line, text = of({"real": 0, "max_mem": 0})
    says("step: not measured", text)
    line, text = of({"gpus": 4})  # more that was measured, or so
    says("step: absolute error", text)
    line, text = of({"pipeline_list": [3]})
    says("not predicted: plan_config_it.json:1: pipeline_list[0]", line)
    says("predicted: 0 of 1 plans", text)


def fitted(folder, plans):
    """The second table says whose the base memory is, and not what fits, which
    is about the first one's prediction."""
    for i, plan in enumerate(plans):
        (folder / f"plan_config_{i}.json").write_text(json.dumps(
            {**plan, "max_mem": plan["max_mem"] + 8 * 10**9}))
    large = {**plans[0], "mbs": 256, "gbs": 256, "real": 10.0,
             "max_mem": None}
    (folder / "plan_config_large.json").write_text(json.dumps(large))
    first, _, second = table(folder).partition("fitted to the other plans")
    require(row(first, "large").endswith("  does not fit"), first)
    require("does not fit" not in second and "large" in second, second)
    title = second.splitlines()[0]
    require(" GB base memory per tensor-parallel group, " in title, title)


def closed(folder, plans):
    """Who reads the first line only gets no traceback."""
    for i in range(3):
        (folder / f"plan_config_{i}.json").write_text(json.dumps(plans[0]))
    with subprocess.Popen([sys.executable, RUN, PIPEWRIGHT, folder], text=True,
                          stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    require(not errors, errors)


def nodes(folder, plans):
    """Plans of one node count are compared, that of the file where it has one."""
    hosts = {**plans[0], "N": 5}  # of one group
    for name, plan in (("1", plans[0]), ("2", {**hosts, "real": 1.0})):
        (folder / f"plan_config_{name}.json").write_text(json.dumps(plan))
    require("right order: 0 of 0" in table(folder), "plans of 1 and 5 nodes")


def unfitted(folder, plans):
    """A fit that fails costs its own rows, and groups without one are named."""
    program = folder / "failing"
    program.write_text("#!/bin/sh\n[ $1 = calibrate ] && echo no fit >&2 && "
                       f"exit 70\nexec {os.path.abspath(PIPEWRIGHT)} \"$@\"\n")
    program.chmod(0o755)
    for i, plan in enumerate(plans[:3]):
        (folder / f"plan_config_{i}.json").write_text(json.dumps(plan))
    degree_one = copy.deepcopy(plans[0])
    degree_one["pipeline_list"][0]["tmp_per_stage"] = [
        [[[["GH-96", 1, degree_one["zone"]]], 1]]]
    (folder / "plan_config_one.json").write_text(json.dumps(degree_one))
    done = subprocess.run([sys.executable, RUN, program, folder], text=True,
                          capture_output=True, check=False)
    for part in ("4 x GH-96, not fitted: no fit",
                 "fewer than three measured plans, not fitted: 1 x GH-96 (1)"):
        require(part in done.stdout, f"no {part!r} in {done}")


def arguments():
    """What is not a plan, a folder or the program is refused in a line."""
    for given, code, part in ((["--help"], 0, "A PLAN is a file"),
                              (["/no/such/program"], 2, "no program"),
                              ([PIPEWRIGHT, "plan"], 2, "neither a *.json")):
        done = subprocess.run([sys.executable, RUN, *given], text=True,
                              capture_output=True, check=False)
        require(done.returncode == code and part in done.stdout + done.stderr
                and "Traceback" not in done.stderr, f"{given}: {done}")
    says = row(table("/no/such/plan.json"), "plan")
    require("not predicted" in says, says)


def main():
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    plans = sound_plans()
    arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "OPT-350"
        folder.mkdir()
        known(folder, plans)
        (folder / "plan_config_it.json").unlink()
        for check in (fitted, closed, nodes, unfitted):
            check(folder, plans)
            for file in folder.iterdir():
                file.unlink()
        many(folder, plans, number, seed)


main()
