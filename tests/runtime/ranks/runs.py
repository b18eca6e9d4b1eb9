"""Ranks of pipewright under mpirun, and what tests of faults ask about them.

mpirun is asked not to end the other ranks itself where one dies: it is us who
are to.
"""

import json
import os
import pathlib
import re
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
WRAPPER = ('trap "" TERM; trap : USR1; "$@"; '
           'echo $? > "$CODES/${OMPI_COMM_WORLD_RANK:-$RANK}"')
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


def plan(folder, workers, name=None, minibatch=12, planner="uniform"):
    file = folder / (name or f"plan{workers}.json")
    if not file.exists():
        pipewright("plan", "--model", MODEL, "--cluster", f"{workers}xcpu",
                   "--minibatch", minibatch, "--microbatch", 3, "--planner",
                   planner, "-o", file)
    profile = folder / "profile.json"
    if not profile.exists():
        pipewright("profile", MODEL, "--microbatch", "3", "--analytic",
                   "--device", "cpu", "-o", profile)
    return file


def pids_of(part):
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


class Run:
    """Ranks under mpirun, from start to end."""

    def __init__(self, folder, commands, name, prefixes=None, launcher=None,
                 places=None, wrapper=WRAPPER):
        """`launcher` is mpirun with its options, `places` those that say on
        which host each rank is. Without `wrapper` no codes are noted."""
        self.codes_folder = folder / f"codes-{name}"
        self.codes_folder.mkdir()
        self.ranks = len(commands)
        line = list(launcher or [MPIRUN])
        for i, command in enumerate(commands):
            prefix = prefixes[i] if prefixes else []
            place = places[i] if places else []
            shell = ["sh", "-c", wrapper, "sh"] if wrapper else []
            line += [":"] * (i > 0) + ["-n", "1", *place, *shell, *prefix,
                                       PIPEWRIGHT, *map(str, command)]
        # mpirun fails if another run that ends removes their common folder.
        session = folder / f"session-{name}"
        session.mkdir()
        self.output = open(folder / f"output-{name}", "w+")
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            line, stdout=self.output, stderr=subprocess.STDOUT,
            env=dict(ENVIRONMENT, CODES=str(self.codes_folder),
                     OMPI_MCA_orte_tmpdir_base=str(session)))

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
        return pids_of(part)

    def __str__(self):
        return f"codes {self.codes()}\n{self.text()}"


def train(folder, file, run, *options, steps=12, workers=3, name=None,
          commands=None, prefixes=None, **started):
    command = ["train", file, "--data", "digits", "--run", run, "--steps",
               steps, "--checkpoint-every", 3, "--seed", 7, "--profile",
               folder / "profile.json", *options]
    return Run(folder, commands or [command] * workers, name or run.name,
               prefixes, **started)


def checkpoint(run, step):
    """Every byte of the checkpoint of a step."""
    folder = run / "checkpoints" / f"step-{step}"
    files = sorted(folder.iterdir())
    require(len(files) > 2, f"no checkpoint in {folder}")
    return [(f.name, f.read_bytes()) for f in files]


def losses(run):
    """By step. The run may be writing its next line."""
    text = (run / "metrics.jsonl").read_text()
    lines = text[:text.rfind("\n") + 1].splitlines()
    return {row["step"]: row["loss"] for row in map(json.loads, lines)
            if "loss" in row}


def unbroken(folder, workers=3, steps=12, file=None):
    """In one process: the weights that every other way must come to."""
    run = folder / ("unbroken-" + file.stem if file else "unbroken")
    if not run.exists():
        pipewright("train", file or plan(folder, workers), "--data", "digits", "--run",
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
    lines = one_line(run, f"rank {culprit} ")
    require(culprit == 0 or len(lines) == 1, "not one line for all", run)
    nothing_left(run_folder, run)


def as_root(*command):
    """Whether a command that needs rights has worked."""
    return subprocess.run(command, capture_output=True).returncode == 0


def until(holds, what, run, seconds=60, pause=0.1):
    deadline = time.monotonic() + seconds
    while not holds():
        require(time.monotonic() < deadline, what, run)
        time.sleep(pause)


def run_cases(cases, names):
    """Each named function of `cases` in a folder of its own; the exit code."""
    for name in names:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="pipewright-ranks-") as folder:
            try:
                cases[name](pathlib.Path(folder))
            except Failed as failed:
                print(f"{name}: FAILED: {failed}")
                return 1
        print(f"{name}: as promised, {time.monotonic() - begin:.0f} s",
              flush=True)
    return 0
