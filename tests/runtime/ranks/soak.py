#!/usr/bin/env python3
"""Hours of kills, outside the suite.

    soak.py PIPEWRIGHT MPIRUN SECONDS [SECONDS_BETWEEN_KILLS]

Two trainings of 3 ranks run for that long under tools/supervise. In one a
random rank is killed every minute; the other is left alone, and the memory and
open files of its ranks are looked at. At the end both have the same weights for
the last step that both have saved, and the processes have not grown.
"""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from runs import ENVIRONMENT, MPIRUN, PIPEWRIGHT, pids_of, plan, require

SUPERVISE = pathlib.Path(__file__).resolve().parents[3] / "tools" / "supervise"


def start(folder, where):
    return subprocess.Popen(
        list(map(str, [SUPERVISE, MPIRUN, "-n", 3, PIPEWRIGHT, "train",
                       plan(folder, 3), "--data", "digits", "--run", where,
                       "--steps", 10**9, "--checkpoint-every", 200, "--seed", 7,
                       "--profile", folder / "profile.json"])),
        env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def use_of(pid):
    """Resident kilobytes and open files."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    memory = int(status.split("VmRSS:")[1].split()[0])
    return memory, len(os.listdir(f"/proc/{pid}/fd"))


def newest(where):
    return max(int(entry.name[5:]) for entry in
               (where / "checkpoints").glob("step-*[0-9]"))


def finish(process):
    process.send_signal(signal.SIGUSR1)
    return process.wait(60)


def until_step(folder, where, steps):
    """Trains on, alone, to exactly that step."""
    subprocess.run(
        list(map(str, [PIPEWRIGHT, "train", plan(folder, 3), "--data", "digits",
                       "--run", where, "--steps", steps, "--seed", 7, "--resume",
                       "--profile", folder / "profile.json"])),
        check=True, capture_output=True)
    saved = where / "checkpoints" / f"step-{steps}"
    return [(f.name, f.read_bytes()) for f in sorted(saved.iterdir())]


def main():
    seconds = float(sys.argv[3])
    between = float(sys.argv[4]) if len(sys.argv) > 4 else 60
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pipewright-soak-"))
    killed, calm = folder / "killed", folder / "calm"
    plan(folder, 3)
    processes = [start(folder, killed), start(folder, calm)]
    draw, begin, kills = random.Random(1), time.monotonic(), 0
    first = {}
    while time.monotonic() - begin < seconds:
        time.sleep(between)
        victims = pids_of(str(killed))
        if victims:
            os.kill(draw.choice(victims), signal.SIGKILL)
            kills += 1
        for pid in pids_of(str(calm)):
            first.setdefault(pid, use_of(pid))  # after the warm-up
    growth = {pid: (use_of(pid), before) for pid, before in first.items()
              if pathlib.Path(f"/proc/{pid}").exists()}
    codes = [finish(process) for process in processes]
    hours = (time.monotonic() - begin) / 3600
    for pid, ((memory, files), (memory_before, files_before)) in growth.items():
        print(f"process {pid}: {memory_before} to {memory} kB, "
              f"{files_before} to {files} files")
        require(files == files_before, "open files have changed")
        require(memory - memory_before < 0.01 * memory_before * max(hours, 1),
                "memory has grown by over 1 % per hour")
    steps = max(newest(killed), newest(calm)) + 1
    same = until_step(folder, killed, steps) == until_step(folder, calm, steps)
    require(same, "other weights")
    print(f"{kills} kills in {hours:.2f} h, exit codes {codes}, "
          f"same weights at step {steps}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
