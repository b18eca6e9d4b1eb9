#!/usr/bin/env python3
"""Faults made on purpose, and what pipewright promises about each.

    faults.py PIPEWRIGHT MPIRUN CASE...

A case is a function below. Each starts real ranks and looks at their exit
codes, what they print and leave, and that no process stays behind. mpirun is
asked not to end the other ranks itself where one dies: it is us who are to.
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PIPEWRIGHT, MPIRUN = sys.argv[1:3]
MODEL = "mlp:features=64,hidden=24,classes=10"
ENVIRONMENT = dict(
    os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    OMPI_MCA_rmaps_base_oversubscribe="1",
    OMPI_MCA_orte_enable_recovery="1", OMPI_MCA_orte_abort_non_zero_exit="0")
# A rank notes its exit code itself: mpirun tells only one of all.
WRAPPER = 'trap "" TERM; "$@"; echo $? > "$CODES/$OMPI_COMM_WORLD_RANK"'
STOPS_WITHIN = 5  # seconds, as promised
STALL = 3  # --stall-limit of tests that wait for it


class Failed(Exception):
    pass


def require(holds, what, run=None):
    if not holds:
        raise Failed(what + (f"\n{run}" if run else ""))


def pipewright(*arguments, code=0):
    done = subprocess.run([PIPEWRIGHT, *map(str, arguments)], text=True,
                          capture_output=True, timeout=120)
    require(done.returncode == code, f"{arguments}: {done.returncode}, not "
            f"{code}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def plan(folder, workers, name=None, minibatch=12):
    file = folder / (name or f"plan{workers}.json")
    if not file.exists():
        pipewright("plan", "--model", MODEL, "--cluster", f"{workers}xcpu",
                   "--minibatch", minibatch, "--microbatch", 3, "--planner",
                   "uniform", "-o", file)
    profile = folder / "profile.json"
    if not profile.exists():
        pipewright("profile", MODEL, "--microbatch", "3", "--analytic",
                   "--device", "cpu", "-o", profile)
    return file


class Run:
    """Ranks under mpirun, from start to end."""

    def __init__(self, folder, commands, name):
        self.codes_folder = folder / f"codes-{name}"
        self.codes_folder.mkdir()
        self.ranks = len(commands)
        line = [MPIRUN]
        for i, command in enumerate(commands):
            line += [":"] * (i > 0) + ["-n", "1", "sh", "-c", WRAPPER, "sh",
                                       PIPEWRIGHT, *map(str, command)]
        self.output = open(folder / f"output-{name}", "w+")
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            line, stdout=self.output, stderr=subprocess.STDOUT,
            env=dict(ENVIRONMENT, CODES=str(self.codes_folder)))

    def wait(self, timeout=100):
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed(f"still running after {timeout} s\n{self}")
        self.seconds = time.monotonic() - self.begin
        return self

    def text(self):
        self.output.flush()
        return pathlib.Path(self.output.name).read_text()

    def codes(self):
        return {int(f.name): int(f.read_text())
                for f in self.codes_folder.iterdir() if f.read_text()}

    def ended(self, rank):
        return (self.codes_folder / str(rank)).stat().st_mtime

    def pids(self, part):
        """Processes of ours that have `part` on their command line."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                line = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if line[0] == PIPEWRIGHT.encode() and part.encode() in line:
                found.append(int(entry.name))
        return sorted(found)

    def __str__(self):
        return f"codes {self.codes()}\n{self.text()}"


def train(folder, file, run, *options, steps=12, workers=3, name=None,
          commands=None):
    command = ["train", file, "--data", "digits", "--run", run, "--steps",
               steps, "--checkpoint-every", 3, "--seed", 7, "--profile",
               folder / "profile.json", *options]
    return Run(folder, commands or [command] * workers, name or run.name)


def checkpoint(run, step):
    """Every byte of the checkpoint of a step."""
    folder = run / "checkpoints" / f"step-{step}"
    files = sorted(folder.iterdir())
    require(len(files) > 2, f"no checkpoint in {folder}")
    return [(f.name, f.read_bytes()) for f in files]


def losses(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return {row["step"]: row["loss"] for row in map(json.loads, lines)
            if "loss" in row}


def unbroken(folder, workers=3, steps=12):
    """In one process: the weights that every other way must come to."""
    run = folder / "unbroken"
    if not run.exists():
        pipewright("train", plan(folder, workers), "--data", "digits", "--run",
                   run, "--steps", steps, "--checkpoint-every", 3, "--seed", 7,
                   "--profile", folder / "profile.json")
    return run


def check_report(run, rank, code):
    """The file that a failed rank leaves."""
    file = run / f"failure_{rank}.json"
    require(file.exists(), f"{file} is missing")
    report = json.loads(file.read_text())
    require(report["exit_code"] == code, f"{file}: {report}")
    require(len(report["last_actions"]) <= 64, f"{file}: too many actions")
    return report


def one_line(run, part):
    found = [line for line in run.text().splitlines()
             if line.startswith("pipewright: ") and re.search(part, line)]
    require(found, f"no line says: {part}", run)
    return found


def nothing_left(run_folder, run):
    for _ in range(20):
        left = run.pids(str(run_folder))
        if not left:
            return
        time.sleep(0.1)
    raise Failed(f"processes left behind: {left}\n{run}")


def others_stop(run, run_folder, culprit, within=STOPS_WITHIN):
    codes = run.codes()
    for rank in range(run.ranks):
        if rank == culprit:
            continue
        require(codes.get(rank) == 75, f"rank {rank} is not 75", run)
        late = run.ended(rank) - run.ended(culprit)
        require(late < within, f"rank {rank} stopped {late:.1f} s later", run)
        check_report(run_folder, rank, 75)
    one_line(run, f"rank {culprit} ")
    nothing_left(run_folder, run)


def same_bits(folder):
    """mpirun gives the bits of one process."""
    whole = unbroken(folder)
    run = train(folder, plan(folder, 3), folder / "ranks").wait()
    require(set(run.codes().values()) == {0}, "not well", run)
    require(checkpoint(folder / "ranks", 12) == checkpoint(whole, 12),
            "the weights are others", run)
    require(losses(folder / "ranks") == losses(whole), "the losses are others")
    require("step 12/12" in run.text(), "no steps are shown", run)


def kill(folder, points=50, seed=1):
    """A rank is killed at any action; every few times it goes on with --resume.

    Two at a time: most of it is waiting for a start."""
    whole = unbroken(folder)
    draw = random.Random(seed)
    kinds = ["F", "B", "S"]

    def start(i):
        workers = draw.choice([2, 3, 3, 4])
        rank, step = draw.randrange(workers), draw.randrange(1, 13)
        kind = draw.choice(kinds)
        microbatch = 0 if kind == "S" else draw.randrange(4)
        fault = f"kill:rank={rank},step={step},action={kind}{microbatch}"
        where = folder / f"kill{i}"
        return train(folder, plan(folder, workers), where, "--inject", fault,
                     workers=workers), where, fault, rank, step, workers

    def check(run, where, fault, rank, step, workers):
        run.wait()
        require(run.codes().get(rank) == 137, f"{fault}: not killed", run)
        others_stop(run, where, rank)
        lines = one_line(run, f"rank {rank} ")
        require(any("was lost" in line for line in lines), fault, run)
        if draw.random() < 0.25 and step > 3:
            again = train(folder, plan(folder, workers), where, "--resume",
                          workers=workers, name=where.name + "-again").wait()
            require(set(again.codes().values()) == {0}, fault, again)
            require(checkpoint(where, 12) == checkpoint(whole, 12),
                    f"{fault}: other weights after --resume", again)
            require(losses(where) == losses(whole),
                    f"{fault}: other losses after --resume", again)
        shutil.rmtree(where)

    for i in range(0, points, 2):
        pair = [start(i), start(i + 1)]
        for each in pair:
            check(*each)


def kill_few(folder):
    kill(folder, 6, seed=2)


def stop(folder):
    """A stopped rank is noticed at the limit; a short stop only costs time."""
    where = folder / "stopped"
    run = train(folder, plan(folder, 3), where, "--stall-limit", STALL,
                "--inject", "stop:rank=1,step=5,action=B2")
    try:
        deadline = time.monotonic() + 60
        while len(run.codes()) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        codes = run.codes()
        require(codes == {0: 75, 2: 75}, "the others have not stopped", run)
    finally:
        for pid in run.pids(str(where)):
            os.kill(pid, signal.SIGKILL)
    run.wait(30)
    line = one_line(run, "rank 1 ")[0]
    # Beats come ten times a second: the place is where it was seen last.
    require("silent" in line, line)
    # On a quick machine that may be some steps before.
    require(re.search(r"last seen (before the first step|[a-z ,]+ step [0-5], )",
                      line), line)
    nothing_left(where, run)

    where = folder / "short"
    run = train(folder, plan(folder, 3), where, "--stall-limit", 8, "--inject",
                "stop:rank=1,step=5,action=B2,seconds=2").wait()
    require(set(run.codes().values()) == {0}, "a short stop is no end", run)
    require(run.seconds > 2, "it was not stopped", run)
    require(checkpoint(where, 12) == checkpoint(unbroken(folder), 12),
            "a short stop changes weights", run)


def loop(folder):
    """A worker that computes for ever is noticed though its rank beats."""
    for rank in (0, 2):
        where = folder / f"loop{rank}"
        run = train(folder, plan(folder, 3), where, "--stall-limit", STALL,
                    "--inject", f"loop:rank={rank},step=5,action=F1").wait()
        codes = run.codes()
        require(codes == {0: 75, 1: 75, 2: 75}, "not all have stopped", run)
        line = one_line(run, f"rank {rank} ")[0]
        require("does not get on" in line and "forward of microbatch 1" in line,
                line)
        check_report(where, rank, 75)
        nothing_left(where, run)


def throw(folder):
    """A kernel that fails ends all, with its place."""
    where = folder / "throw"
    run = train(folder, plan(folder, 3), where, "--inject",
                "throw:rank=1,step=5,action=B2").wait()
    require(set(run.codes().values()) == {75}, "not 75", run)
    line = one_line(run, "made to fail")[0]
    require("worker 1" in line and "stage 1" in line, line)
    report = check_report(where, 1, 75)
    require(len(report["last_actions"]) == 64, "fewer than 64 actions")


def start(folder):
    """A rank missing, and ranks that differ, are told apart."""
    where = folder / "missing"
    run = train(folder, plan(folder, 3), where, "--set-up-limit", 8, "--inject",
                "missing:rank=1")
    try:
        deadline = time.monotonic() + 40
        while len(run.codes()) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        require(run.codes() == {0: 75, 2: 75}, "rank 1 is not missed", run)
        require(time.monotonic() - run.begin < 8 + 15, "too late", run)
    finally:
        for pid in run.pids(str(where)):
            os.kill(pid, signal.SIGKILL)
    run.wait(30)
    one_line(run, "missing")

    other = folder / "other.json"
    text = plan(folder, 3).read_text()
    require('"microbatch": 3' in text, "no microbatch in the plan")
    plan(folder, 3, "other.json", minibatch=15)

    def differing(name, changed, part, code=76, **options):
        run_folder = folder / name
        base = ["train", plan(folder, 3), "--data", "digits", "--run",
                run_folder, "--steps", 2]
        commands = [list(base) for _ in range(3)]
        changed(commands[1])
        done = train(folder, None, run_folder, commands=commands).wait()
        require(set(done.codes().values()) == {code}, f"not {code}", done)
        for each in [part, "rank 1 on "]:
            one_line(done, each)
        require(not (run_folder / "checkpoints").exists(), "it has trained")

    def set_plan(command):
        command[1] = other

    differing("plans", set_plan, "another plan")
    differing("seeds", lambda c: c.extend(["--seed", 2]), "another seed")
    differing("rates", lambda c: c.extend(["--lr", 0.5]), "set of options")
    differing("nofile", lambda c: c.__setitem__(1, folder / "none.json"),
              "none.json", code=66)

    few = train(folder, plan(folder, 3), folder / "few", workers=2).wait()
    require(set(few.codes().values()) == {78}, "2 ranks for 3 workers", few)
    one_line(few, "the plan has 3 workers, and 2 ranks were started")


def checkpoints(folder):
    """A checkpoint that is not what was written is refused by name."""
    whole = unbroken(folder)

    def altered(file):
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)

    def truncated(file):
        file.write_bytes(file.read_bytes()[:-5])

    def swapped(file):
        other = file.with_name("layer-0002.safetensors")
        first, second = file.read_bytes(), other.read_bytes()
        file.write_bytes(second)
        other.write_bytes(first)

    def gone(file):
        file.unlink()

    for change in (altered, truncated, swapped, gone):
        run = folder / change.__name__
        shutil.copytree(whole, run)
        change(run / "checkpoints" / "step-12" / "layer-0000.safetensors")
        done = train(folder, plan(folder, 3), run, "--resume", steps=15).wait()
        codes = set(done.codes().values())
        if codes == {0}:  # fallen back, and said so
            require("step-12" in done.text(), "nothing is said", done)
            require(max(losses(run)) == 15, "not trained to the end", done)
        else:
            require(codes == {65}, "neither 0 nor 65", done)
            one_line(done, "layer-0000.safetensors")


def disk(folder):
    """A folder that cannot be written is known before step 0."""
    blocked = folder / "file"
    blocked.write_text("x")
    run = train(folder, plan(folder, 2), blocked / "run", workers=2,
                name="blocked").wait()
    require(set(run.codes().values()) == {73}, "not 73", run)
    require("step 1/" not in run.text(), "it has trained", run)


def nan(folder):
    """No number at one rank: all stop before the step, weights unchanged."""
    whole = unbroken(folder)
    for rank, action in ((0, "F1"), (1, "F3"), (2, "F0"), (1, "B2"), (0, "B3")):
        where = folder / f"nan{rank}{action}"
        run = train(folder, plan(folder, 3), where, "--inject",
                    f"nan:rank={rank},step=8,action={action}").wait()
        require(set(run.codes().values()) == {79}, "not 79", run)
        # Who is quicker tells: the worker whose gradient it is, or the one
        # whose next loss shows it.
        one_line(run, r"not finite|loss is -?nan" if action[0] == "B" else "loss")
        for each in range(3):
            check_report(where, each, 79)
        saved = sorted(int(f.name[5:]) for f in
                       (where / "checkpoints").iterdir()
                       if re.fullmatch(r"step-\d+", f.name))
        require(saved and saved[-1] <= 7, f"saved {saved}", run)
        again = train(folder, plan(folder, 3), where, "--resume",
                      name=where.name + "-again").wait()
        require(set(again.codes().values()) == {0}, "cannot go on", again)
        require(checkpoint(where, 12) == checkpoint(whole, 12),
                "other weights after --resume", again)


def terminate(folder):
    """SIGTERM to one or all: the step is finished, saved, and it is 75."""
    for name, chosen in (("one", slice(1, 2)), ("all", slice(None))):
        where = folder / f"term-{name}"
        run = train(folder, plan(folder, 3), where, steps=10**9)
        metrics = where / "metrics.jsonl"
        deadline = time.monotonic() + 60
        while not (metrics.exists() and metrics.stat().st_size) and \
                time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in run.pids(str(where))[chosen]:
            os.kill(pid, signal.SIGTERM)
        run.wait()
        require(set(run.codes().values()) == {75}, "not 75", run)
        last = max(losses(where))
        checkpoint(where, last)
        nothing_left(where, run)


def replan(folder):
    """A device is lost: a plan for those that remain goes on with the weights."""
    whole = unbroken(folder)
    where = folder / "replan"
    run = train(folder, plan(folder, 3), where, "--inject",
                "kill:rank=2,step=8,action=F0").wait()
    others_stop(run, where, 2)
    before = checkpoint(where, 6)
    require(before == checkpoint_of_steps(folder, 6), "other weights at step 6")
    again = train(folder, plan(folder, 2), where, "--resume", workers=2,
                  name="replan-again").wait()
    require(set(again.codes().values()) == {0}, "cannot go on", again)
    require(checkpoint(where, 12) == checkpoint(whole, 12),
            "other weights under the new plan", again)
    require(losses(where) == losses(whole), "other losses under the new plan")


def checkpoint_of_steps(folder, steps):
    run = folder / f"alone{steps}"
    pipewright("train", plan(folder, 3), "--data", "digits", "--run", run,
               "--steps", steps, "--seed", 7, "--profile",
               folder / "profile.json")
    return checkpoint(run, steps)


def main():
    for name in sys.argv[3:]:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="pipewright-faults-") as folder:
            try:
                globals()[name](pathlib.Path(folder))
            except Failed as failed:
                print(f"{name}: FAILED: {failed}")
                return 1
        print(f"{name}: as promised, {time.monotonic() - begin:.0f} s",
              flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
