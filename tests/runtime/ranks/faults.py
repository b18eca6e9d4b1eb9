#!/usr/bin/env python3
"""Faults made on purpose, and what pipewright promises about each.

    faults.py PIPEWRIGHT MPIRUN CASE...

A case is a function below. Each starts real ranks and looks at their exit
codes, what they print and leave, and that no process stays behind.
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from runs import (ENVIRONMENT, MODEL, MPIRUN, PIPEWRIGHT, STALL, STOPS_WITHIN,
                  Run, as_root, check_report, checkpoint, losses, nothing_left,
                  one_line, others_stop, pids_of, pipewright, plan, require,
                  run_cases, train, unbroken, until)


def same_bits(folder):
    """Ranks give the bits of one process."""
    whole = unbroken(folder)
    run = train(folder, plan(folder, 3), folder / "ranks").wait()
    require(set(run.codes().values()) == {0}, "not well", run)
    require(checkpoint(folder / "ranks", 12) == checkpoint(whole, 12),
            "the weights are others", run)
    require(losses(folder / "ranks") == losses(whole), "the losses are others")
    require("step 12/12" in run.text(), "no steps are shown", run)
    measured(folder, whole)


def measured(folder, whole):
    """What ranks measure before the first step leaves its bits alone."""
    where = folder / "measured"
    command = ["train", plan(folder, 3), "--data", "digits", "--run", where,
               "--steps", 12, "--checkpoint-every", 3, "--seed", 7]
    run = Run(folder, [command] * 3, "measured").wait()
    require(set(run.codes().values()) == {0}, "not well", run)
    require(checkpoint(where, 12) == checkpoint(whole, 12),
            "the weights are others", run)
    require("beside its layers" in (where / "profile.json").read_text(),
            "the overhead of an action is not said", run)


def kill(folder, points=25, seed=1):
    """A rank is killed at any action, each kind in turn; every few times it
    goes on with --resume. Two at a time: most of it is waiting for a start."""
    whole = unbroken(folder)
    draw = random.Random(seed)
    detected, ended = [], []  # seconds after the kill: the first, the last rank

    def start(i):
        workers = draw.choice([2, 3, 3, 4])
        rank, step = draw.randrange(workers), draw.randrange(1, 13)
        kind = ("F", "B", "send", "S")[i % 4]
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
        require("asked to end" not in run.text(), "nobody has asked", run)
        others = [each for each in range(workers) if each != rank]
        detected.append(min((where / f"failure_{each}.json").stat().st_mtime
                            for each in others) - run.ended(rank))
        ended.append(max(map(run.ended, others)) - run.ended(rank))
        if draw.random() < 0.25 and step > 3:
            resumes(folder, plan(folder, workers), where, workers, whole, fault)
        shutil.rmtree(where)

    for i in range(0, points, 2):
        for each in [start(j) for j in range(i, min(i + 2, points))]:
            check(*each)
    require(sorted(detected)[points // 2] < 1, f"noticed late: {detected}")
    print(f"kill: {points} of {points}, noticed after {max(detected):.2f} s at "
          f"most, all down after {max(ended):.2f} s at most, no process left")


def resumes(folder, file, where, workers, whole, fault):
    """A training that a fault has ended goes on to the unbroken one's bits."""
    again = train(folder, file, where, "--resume", workers=workers,
                  name=where.name + "-again").wait()
    require(set(again.codes().values()) == {0}, fault, again)
    require(not list(where.glob("failure_*")), "old reports", again)
    require(checkpoint(where, 12) == checkpoint(whole, 12),
            f"{fault}: other weights after --resume", again)
    require(losses(where) == losses(whole),
            f"{fault}: other losses after --resume", again)


def replicas(folder):
    """A rank is killed whose gradients, or whose part of the sums, the other
    replicas wait for: before it has sent any, and after it has sent its own."""
    for workers in (2, 3):
        file = plan(folder, workers, f"replicas{workers}.json",
                    planner="data-parallel")
        whole = unbroken(folder, file=file)
        for rank, action in ((1, "B3"), (0, "S0")):
            fault = f"kill:rank={rank},step=8,action={action}"
            where = folder / f"replicas{workers}-{rank}{action}"
            run = train(folder, file, where, "--inject", fault,
                        workers=workers).wait()
            require(run.codes().get(rank) == 137, f"{fault}: not killed", run)
            others_stop(run, where, rank)
            lines = one_line(run, f"rank {rank} ")
            require(any("was lost" in line for line in lines), fault, run)
            resumes(folder, file, where, workers, whole, fault)


def kill_many(folder):
    kill(folder, 100, seed=5)


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
    require(re.search(r"last seen (during set-up|before the first step|"
                      r"[a-z ,]+ step [0-5], )", line), line)
    nothing_left(where, run)

    where = folder / "short"
    run = train(folder, plan(folder, 3), where, "--stall-limit", 8, "--inject",
                "stop:rank=1,step=5,action=B2,seconds=2").wait()
    require(set(run.codes().values()) == {0}, "a short stop is no end", run)
    require(run.seconds > 2, "it was not stopped", run)
    one_line(run, r"warning: rank 1 on .* was silent for [\d.]+ s; training goes")
    require(checkpoint(where, 12) == checkpoint(unbroken(folder), 12),
            "a short stop changes weights", run)


def stop_many(folder):
    """20 random ranks of 2 to 4 are stopped at random actions: the one that was
    stopped is named, each time."""
    draw, late = random.Random(6), []
    for i in range(20):
        workers = draw.choice([2, 3, 4])
        rank, step = draw.randrange(workers), draw.randrange(2, 12)
        action = draw.choice("FB") + str(draw.randrange(4))
        where = folder / f"stop{i}"
        run = train(folder, plan(folder, workers), where, "--stall-limit",
                    STALL, "--inject",
                    f"stop:rank={rank},step={step},action={action}",
                    workers=workers)
        others = set(range(workers)) - {rank}
        try:
            until(lambda: set(run.codes()) >= others, "not noticed", run)
            require(all(run.codes()[each] == 75 for each in others), "not 75",
                    run)
        finally:
            for pid in run.pids(str(where)):
                os.kill(pid, signal.SIGKILL)
        run.wait(30)
        lines = one_line(run, r"rank \d+ on .* has been silent")
        silent = re.findall(r"rank (\d+) on .* silent for ([\d.]+) s",
                            "\n".join(lines))
        require({int(who) for who, _ in silent} == {rank},
                f"rank {rank} was stopped", run)
        late += [float(seconds) - STALL for _, seconds in silent]
        nothing_left(where, run)
        shutil.rmtree(where)
    require(max(late) < STOPS_WITHIN, f"noticed late: {late}")
    print(f"stop: named 20 of 20, {max(late):.2f} s after the limit at most")


def torchrun(folder):
    """torchrun brings ranks together; where one dies it starts all again, and
    they resume to the bits of one process."""
    venv = pathlib.Path(__file__).resolve().parents[3] / ".venv/bin/torchrun"
    launcher = str(venv) if venv.exists() else shutil.which("torchrun")
    if not launcher:
        print("skipped: no torchrun here")
        return
    where, whole = folder / "torchrun", unbroken(folder)
    command = ["train", plan(folder, 3), "--data", "digits", "--run", where,
               "--steps", 12, "--checkpoint-every", 3, "--seed", 7,
               "--profile", folder / "profile.json"]
    first = "--inject kill:rank=1,step=8"
    shell = (f'[ $TORCHELASTIC_RESTART_COUNT = 0 ] && more="{first}" || '
             f'more=--resume; exec "$@" $more')
    done = subprocess.run(
        list(map(str, [launcher, "--nproc-per-node", 3, "--max-restarts", 1,
                       "--no-python", "--", "sh", "-c", shell, "sh",
                       PIPEWRIGHT, *command])),
        text=True, capture_output=True, timeout=100)
    said = done.stdout + done.stderr
    require(done.returncode == 0, f"{done.returncode}\n{said}")
    require("steps 6 to 12" in said, f"not resumed\n{said}")
    require(checkpoint(where, 12) == checkpoint(whole, 12), "other weights")
    require(losses(where) == losses(whole), "other losses")


def refused(folder):
    """What ranks over sockets do not do, and a launcher that is mistaken."""
    few = train(folder, plan(folder, 3), folder / "fast", "--fast-reduce").wait()
    require(set(few.codes().values()) == {78}, "--fast-reduce", few)
    one_line(few, "--fast-reduce leaves sums to MPI.*over sockets")
    wrong = subprocess.run(
        [PIPEWRIGHT, "train", plan(folder, 3), "--data", "digits", "--run",
         folder / "wrong"], text=True, capture_output=True,
        env=dict(os.environ, RANK="3", WORLD_SIZE="3", MASTER_ADDR="localhost",
                 MASTER_PORT="29500"))
    require(wrong.returncode == 78 and "rank 3 of 3" in wrong.stderr,
            f"{wrong.returncode} {wrong.stderr}")
    unequal = folder / "unequal.json"
    shares = json.loads(plan(folder, 3).read_text())
    shares["device_kinds"] = ["cpu", "cuda/2", "cuda/4"]
    unequal.write_text(json.dumps(shares))
    overlap = train(folder, unequal, folder / "overlap").wait()
    require(list(overlap.codes().values()) == [78] * 3, "unequal shares",
            overlap)
    one_line(overlap, "worker 2: a plan cannot use both cuda/2 and cuda/4")


def slurm(folder):
    """srun without PMI, where MASTER_ADDR and MASTER_PORT are set."""
    port, whole = free_port(), unbroken(folder)
    prefixes = [["env", "-u", "RANK", "-u", "WORLD_SIZE",
                 "SLURM_STEP_NUM_TASKS=3", f"SLURM_PROCID={rank}",
                 f"MASTER_PORT={port}"] for rank in range(3)]
    run = train(folder, plan(folder, 3), folder / "slurm",
                prefixes=prefixes).wait()
    require(set(run.codes().values()) == {0}, "not well", run)
    require(checkpoint(folder / "slurm", 12) == checkpoint(whole, 12),
            "the weights are others", run)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def loop(folder):
    """A worker that computes for ever is noticed though its rank beats."""
    for rank in (0, 2):
        where = folder / f"loop{rank}"
        run = train(folder, plan(folder, 3), where, "--stall-limit", STALL,
                    "--inject", f"loop:rank={rank},step=5,action=F1").wait()
        codes = run.codes()
        require(codes == {0: 75, 1: 75, 2: 75}, "not all have stopped", run)
        line = one_line(run, f"rank {rank} ")[0]
        require("no progress" in line and "forward of microbatch 1" in line,
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


def missing(folder):
    """A rank that never comes, or is gone before all have met, is named by
    those who wait for it, after --set-up-limit."""
    limit, number = 4, folder / "sleeper"
    sleeper = ["sh", "-c", f"echo $$ > {number}; exec sleep 1000", "sh"]

    def check(name, rank, says, when_started=None):
        where, waiting = folder / name, {0, 1, 2} - {rank}
        run = train(folder, plan(folder, 3), where, "--set-up-limit", limit,
                    prefixes=[sleeper if each == rank else []
                              for each in range(3)])
        files = {each: where / f"start_{each}.json" for each in waiting}
        until(lambda: number.exists() and
              all(file.exists() for file in files.values()), "no start", run)
        began = {each: file.stat().st_mtime for each, file in files.items()}
        if when_started:
            when_started(files[0])
        until(lambda: set(run.codes()) == waiting, "not missed", run)
        codes = run.codes()
        os.kill(int(number.read_text()), signal.SIGKILL)
        number.unlink()
        run.wait(30)
        for each in waiting:
            require(codes[each] == 69, "not 69", run)
            after = run.ended(each) - began[each]
            require(limit - 0.5 < after < limit + STOPS_WITHIN,
                    f"rank {each} ended after {after:.1f} s", run)
            check_report(where, each, 69)
        one_line(run, says)
        nothing_left(where, run)

    for rank in (0, 1):
        check(f"missing{rank}", rank,
              f"missing 4 s after the start: rank {rank} [(]look why")

    def gone(file):
        """Rank 1 has answered, and its process is no more."""
        ended = subprocess.Popen(["true"])
        ended.wait()
        answer = dict(json.loads(file.read_text()), rank=1, process=ended.pid)
        (file.parent / "start_1.json").write_text(json.dumps(answer))

    check("gone", 1, r"start: rank 1 [(]its process \d+ on .* has ended[)]",
          gone)


def start(folder):
    """A rank missing, and ranks that differ, are told apart."""
    missing(folder)

    other = folder / "other.json"
    text = plan(folder, 3).read_text()
    require('"microbatch": 3' in text, "no microbatch in the plan")
    plan(folder, 3, "other.json", minibatch=15)

    def differing(name, changed, part, code=76, file=None, data="digits"):
        run_folder = folder / name
        base = ["train", file or plan(folder, 3), "--data", data, "--run",
                run_folder, "--steps", 2]
        commands = [list(base) for _ in range(3)]
        changed(commands[1])
        done = train(folder, None, run_folder, commands=commands).wait()
        require(set(done.codes().values()) == {code}, f"not {code}", done)
        for each in [part, "rank 1 on "]:
            one_line(done, each)
        require(not run_folder.exists(), "a refused start left a folder", done)

    def set_plan(command):
        command[1] = other

    differing("plans", set_plan, "a different plan")
    differing("seeds", lambda c: c.extend(["--seed", 2]), "a different seed")
    differing("rates", lambda c: c.extend(["--lr", 0.5]), "set of options")
    differing("nofile", lambda c: c.__setitem__(1, folder / "none.json"),
              "none.json", code=66)

    exported = (pathlib.Path(__file__).resolve().parents[1] / "layers" /
                "exported" / "recurrent.json")
    of_exported, weights = folder / "exported.json", folder / "w.safetensors"
    pipewright("plan", "--model", exported, "--cluster", "3xcpu", "--minibatch",
               6, "--microbatch", 2, "--planner", "uniform", "-o", of_exported)
    content = bytearray(exported.with_suffix(".safetensors").read_bytes())
    content[-1] ^= 1  # one bit of one number
    weights.write_bytes(content)
    differing("weights", lambda c: c.extend(["--weights", weights]),
              "a different set of weights", file=of_exported,
              data=f"tensors:{exported.parent / 'recurrent-samples.safetensors'}")

    few = train(folder, plan(folder, 3), folder / "few", workers=2).wait()
    require(set(few.codes().values()) == {78}, "2 ranks for 3 workers", few)
    one_line(few, "the plan has 3 workers, and 2 ranks were started")


def launchers(folder):
    """srun brings ranks together by PMIx alone; without it none of its tasks
    trains. (mpirun stands in for it: it sets what Slurm's plugin sets, too.)"""
    whole = unbroken(folder)
    ours = [name for name in ("COMM_WORLD_SIZE", "COMM_WORLD_RANK",
                              "COMM_WORLD_LOCAL_RANK", "UNIVERSE_SIZE")]
    prefix = ["env", *(f"-uOMPI_{name}" for name in ours), "SLURM_JOB_ID=7",
              "SLURM_STEP_NUM_TASKS=3"]
    run = train(folder, plan(folder, 3), folder / "pmix",
                prefixes=[prefix] * 3).wait()
    require(set(run.codes().values()) == {0}, "not well", run)
    require(checkpoint(folder / "pmix", 12) == checkpoint(whole, 12),
            "the weights are others", run)
    alone = subprocess.run(
        [PIPEWRIGHT, "train", plan(folder, 3), "--data", "digits", "--run",
         folder / "alone", "--steps", "2"], text=True, capture_output=True,
        env=dict(os.environ, SLURM_STEP_NUM_TASKS="3"))
    require(alone.returncode == 78 and "--mpi=pmix" in alone.stderr,
            f"{alone.returncode} {alone.stderr}")


def hosts(folder):
    """Ranks on other hosts than planned are told so."""
    if not as_root("unshare", "--uts", "hostname", "red"):
        print("hosts: not tried: hosts of other names need root")
        return
    cluster = folder / "hosts.json"
    cluster.write_text(json.dumps({
        "format": "pipewright/cluster", "version": 1, "name": "two",
        "kinds": [], "devices": [
            {"kind": "V100", "host": 0, "name": "red/0"},
            {"kind": "V100", "host": 1, "name": "blue/0"}],
        "within_hosts": {"bandwidth": "50GB/s", "latency": "3us"},
        "between_hosts": {"bandwidth": "10Gb/s", "latency": "30us"}}))

    def started(name, on):
        prefixes = [["unshare", "--uts", "sh", "-c",
                     'hostname "$0"; exec "$@"', host] for host in on]
        return train(folder, plan(folder, 2), folder / name, "--cluster",
                     cluster, workers=2, prefixes=prefixes).wait()

    run = started("as-planned", ("red", "blue.example"))
    require(set(run.codes().values()) == {0}, "not well", run)
    for name, on, says in (
            ("green", ("red", "green"), "planned on host blue.*runs on green"),
            ("swapped", ("blue", "red"), "planned on host red.*runs on blue"),
            ("one", ("red", "red"), "planned on host blue.*runs on red")):
        run = started(name, on)
        require(set(run.codes().values()) == {78}, "not 78", run)
        one_line(run, says)
        require(not (folder / name).exists(), "it left a folder", run)


def checkpoints(folder):
    """A checkpoint that is not what was written is refused by name: training
    goes on from the one before, or ends with 65 if there is none."""
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

    longer = folder / "longer"
    shutil.copytree(whole, longer)
    done = train(folder, plan(folder, 3), longer, "--resume", steps=15).wait()
    require(set(done.codes().values()) == {0}, "cannot go on", done)
    for change in (altered, truncated, swapped, gone):
        run = folder / change.__name__
        shutil.copytree(whole, run)
        change(run / "checkpoints" / "step-12" / "layer-0000.safetensors")
        done = train(folder, plan(folder, 3), run, "--resume", steps=15).wait()
        require(set(done.codes().values()) == {0}, "not fallen back", done)
        one_line(done, "warning: .*step-12/layer-0000.safetensors.*from step 9")
        require(checkpoint(run, 15) == checkpoint(longer, 15),
                "other weights from there on", done)
    run = folder / "none"
    shutil.copytree(whole, run)
    for step in (9, 12):
        altered(run / "checkpoints" / f"step-{step}" / "layer-0000.safetensors")
    done = train(folder, plan(folder, 3), run, "--resume", steps=15).wait()
    require(set(done.codes().values()) == {65}, "not 65", done)
    one_line(done, "step-12/layer-0000.safetensors")
    for rank in range(3):
        check_report(run, rank, 65)


def disk(folder):
    """A folder that cannot be written is known before step 0; a disk that fills
    up later costs checkpoints, not the training."""
    blocked = folder / "file"
    blocked.write_text("x")
    run = train(folder, plan(folder, 2), blocked / "run", workers=2,
                name="blocked").wait()
    require(set(run.codes().values()) == {73}, "not 73", run)
    require("step 1/" not in run.text(), "it has trained", run)

    where = folder / "full"
    run = train(folder, plan(folder, 2), where, "--inject", "full:step=5",
                workers=2).wait()
    require(set(run.codes().values()) == {74}, "not 74", run)
    for step in (6, 9):
        one_line(run, f"warning: step {step} is not saved.*No space left.*"
                      "training goes on.*checkpoint of step 3 is kept")
    require("step 12/12" in run.text(), "training has not gone on", run)
    checkpoint(where, 3)
    again = train(folder, plan(folder, 2), where, "--resume", workers=2,
                  name="full-again").wait()
    require(checkpoint(where, 12) == checkpoint(unbroken(folder), 12),
            "other weights after --resume", again)

    volume = folder / "volume"
    volume.mkdir()
    if not as_root("mount", "-t", "tmpfs", "-o", "size=4m", "none", volume):
        print("disk: not tried: a small file system needs root")
        return
    try:
        small_volume(folder, volume)
    finally:
        subprocess.run(["umount", "-l", volume])


def small_volume(folder, volume):
    """Really no room, while it trains; and room again."""
    where = volume / "run"
    run = train(folder, plan(folder, 2), where, workers=2, steps=10**9)
    saved = where / "checkpoints"
    until(lambda: saved.exists() and list(saved.glob("step-*[0-9]")),
          "no checkpoint", run)
    with open(volume / "ballast", "wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(4096))
        except OSError:
            pass
    until(lambda: "is not saved" in run.text(), "no warning", run)
    kept = sorted(saved.glob("step-*[0-9]"))
    require(kept, "no checkpoint is left", run)
    (volume / "ballast").unlink()
    until(lambda: set(saved.glob("step-*[0-9]")) - set(kept),
          "nothing is saved though there is room again", run)
    for pid in run.pids(str(where)):
        os.kill(pid, signal.SIGTERM)
    run.wait()
    require(set(run.codes().values()) == {75}, "not 75", run)
    checkpoint(where, max(losses(where)))

    subprocess.run(["mount", "-o", "remount,ro", volume], check=True)
    run = train(folder, plan(folder, 2), volume / "other", workers=2,
                name="read-only").wait()
    require(set(run.codes().values()) == {73}, "not 73", run)
    one_line(run, "Read-only")
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
    # Between checkpoints: back to where the piece began, which is then saved.
    where = folder / "piece"
    command = ["train", plan(folder, 3), "--data", "digits", "--run", where,
               "--steps", 12, "--seed", 7, "--profile", folder / "profile.json"]
    said = pipewright(*command, "--inject", "nan:rank=1,step=8,action=B2",
                      code=79)
    require("is not finite" in said and "are kept in" in said, said)
    pipewright(*command, "--resume")
    require(checkpoint(where, 12) == checkpoint(whole, 12),
            "other weights after --resume")
    # With a norm of all gradients everyone knows before the step.
    where = folder / "clipped"
    run = train(folder, plan(folder, 3), where, "--clip", 1, "--inject",
                "nan:rank=1,step=8,action=B2").wait()
    require(set(run.codes().values()) == {79}, "not 79", run)
    one_line(run, "step 8, .*norm of all gradients is -?nan.*step 7 are kept")
    checkpoint(where, 7)


def not_finite(folder):
    """--not-finite: ranks repeat a step and go on as if nothing had been, or
    leave it out as one process does; else they stop."""
    whole, file = unbroken(folder), plan(folder, 3)
    nan_at = "nan:rank=1,step=8,action="
    for action in ("F3", "B2"):
        where = folder / f"repeat{action}"
        run = train(folder, file, where, "--not-finite", "repeat", "--inject",
                    nan_at + action + ",times=1").wait()
        require(set(run.codes().values()) == {0}, "not well", run)
        one_line(run, "warning: .*repeats what follows")
        one_line(run, "warning: .*the fault has not come back")
        require("finite when they were repeated: 1" in run.text(), "", run)
        require(checkpoint(where, 12) == checkpoint(whole, 12),
                f"{action}: other weights after a repetition", run)
        require(losses(where) == losses(whole), "other losses", run)

        where = folder / f"skip{action}"
        options = ["--not-finite", "skip", "--inject", nan_at + action]
        run = train(folder, file, where, *options).wait()
        require(set(run.codes().values()) == {0}, "not well", run)
        one_line(run, "warning: .*also when it was repeated; step 8 is skipped")
        require("because they were not finite: 1" in run.text(), "", run)
        alone = folder / f"alone{action}"
        pipewright("train", file, "--data", "digits", "--run", alone, "--steps",
                   12, "--checkpoint-every", 3, "--seed", 7, "--profile",
                   folder / "profile.json", *options)
        require(checkpoint(where, 12) == checkpoint(alone, 12),
                f"{action}: one process has other weights", run)
        require(losses(where) == losses(alone) and len(losses(where)) == 11 and
                8 not in losses(where), f"{losses(where)}", run)
        nothing_left(where, run)

    run = train(folder, file, folder / "again", "--not-finite", "repeat",
                "--inject", nan_at + "B2").wait()
    require(set(run.codes().values()) == {79}, "not 79", run)
    one_line(run, "also when it was repeated.*step 7 are kept")
    checkpoint(folder / "again", 7)

    command = ["train", "--model", MODEL, "--method", "pipemare", "--workers",
               2, "--minibatch", 8, "--data", "digits", "--run",
               folder / "asynchronous", "--steps", 9, "--not-finite", "skip"]
    run = Run(folder, [command] * 2, "asynchronous").wait()
    require(set(run.codes().values()) == {78}, "not 78", run)
    one_line(run, "pipemare trains several at a time")


def terminate(folder):
    """SIGTERM to one or all, or SIGUSR1 to mpirun, which passes it on: the step
    is finished, saved, and it is 75."""
    for name, chosen in (("one", slice(1, 2)), ("all", slice(None)),
                         ("mpirun", None)):
        where = folder / f"term-{name}"
        run = train(folder, plan(folder, 3), where, steps=10**9)
        metrics = where / "metrics.jsonl"
        deadline = time.monotonic() + 60
        while not (metrics.exists() and metrics.stat().st_size) and \
                time.monotonic() < deadline:
            time.sleep(0.1)
        if chosen:
            for pid in run.pids(str(where))[chosen]:
                os.kill(pid, signal.SIGTERM)
        else:
            run.process.send_signal(signal.SIGUSR1)
        run.wait()
        require(set(run.codes().values()) == {75}, "not 75", run)
        name = "SIGTERM" if chosen else "SIGUSR1"
        one_line(run, f"ended by {name} after step .*--resume")
        for rank in range(3):
            check_report(where, rank, 75)
        last = max(losses(where))
        checkpoint(where, last)
        nothing_left(where, run)


def asynchronous(folder):
    """Steps are shown while ranks train asynchronously: rank 1 is stopped in a
    piece that is far from its end. Then Ctrl-C to mpirun, once and twice: it
    says after which step it stops, and saves that. After the second one mpirun
    is gone, and prints nothing more."""
    for times in (1, 2):
        where = folder / f"asynchronous{times}"
        command = ["train", "--model", MODEL, "--method", "pipemare",
                   "--workers", 2, "--minibatch", 8, "--data", "digits",
                   "--run", where, "--steps", 10**9, "--stall-limit", 100,
                   "--inject", "stop:rank=1,step=40,action=F0"]
        # More time than mpirun's two seconds: others use this machine, too.
        run = Run(folder, [command] * 2, where.name, wrapper=None,
                  launcher=[MPIRUN, "--mca", "odls_base_sigkill_timeout", "30"])
        metrics = where / "metrics.jsonl"
        until(lambda: metrics.exists() and len(losses(where)) >= 30,
              "no steps are shown", run)
        require(max(losses(where)) <= 40, "rank 1 was not stopped", run)
        require("step 1/" in run.text(), "no line says so", run)

        def goes_on():
            for pid in run.pids(str(where)):  # it may not have stopped yet
                os.kill(pid, signal.SIGCONT)
            return max(losses(where)) > 40

        until(goes_on, "it does not go on", run)
        for _ in range(times):
            run.process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        run.wait()
        until(lambda: not run.pids(str(where)), "processes are left", run)
        step = max(losses(where))
        checkpoint(where, step)
        if times == 1:
            one_line(run, f"stops after step {step}, saving")
            one_line(run, f"ended by SIGTERM after step {step}, which is saved")
        for rank in range(2):
            check_report(where, rank, 75)


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


def elastic(folder):
    """--elastic: of 3 ranks one is killed, 2 go on, then 1, then all 3 again, to
    the bits of an unbroken run; no step is lost beyond the last checkpoint."""
    whole, where, file = unbroken(folder), folder / "elastic", plan(folder, 3)

    def starts(workers, steps, *options):
        return train(folder, file, where, "--elastic", *options, steps=steps,
                     workers=workers, name=f"elastic-{workers}-{steps}").wait()

    run = starts(3, 12, "--inject", "kill:rank=1,step=5,action=F0")
    others_stop(run, where, 1)
    require("planned again" not in run.text(), "planned for nothing", run)
    for workers, steps in ((2, 6), (1, 8), (3, 10), (4, 12)):
        first = max(losses(where)) + 1 if workers < 2 else None
        run = starts(workers, steps)
        require(set(run.codes().values()) == {0}, f"{workers} cannot go on", run)
        changed = "planned again" in run.text()
        require(changed == (workers != 3), f"{workers} planned: {changed}", run)
        if changed:
            line, = one_line(run, f"{workers} ranks?, and the plan has 3 workers")
            require("; same bits as before" in line, line)
            require(re.search(r"again in [\d.]+ ms:", line), f"over 1 s: {line}")
        require(first in (None, 7), f"{workers} began at step {first}", run)
    require(checkpoint(where, 12) == checkpoint(whole, 12), "other weights", run)
    require(losses(where) == losses(whole), "other losses")


def memory(folder):
    """A rank without memory ends all, with an exit code of its own."""
    where = folder / "memory"
    run = train(folder, plan(folder, 3), where, "--inject",
                "memory:rank=1,step=5,action=F2").wait()
    require(set(run.codes().values()) == {71}, "not 71", run)
    one_line(run, "worker 1.*not enough memory")
    for rank in range(3):
        check_report(where, rank, 71)
    nothing_left(where, run)


def in_use(folder):
    """A second job is refused while ranks train into the folder."""
    where = folder / "shared"
    first = train(folder, plan(folder, 3), where, steps=10**9)
    until(lambda: (where / "metrics.jsonl").exists() and losses(where),
          "no steps", first)
    second = train(folder, plan(folder, 3), where, "--resume",
                   name="second").wait()
    require(set(second.codes().values()) == {69}, "not 69", second)
    one_line(second, "in use by process")
    require(not list(where.glob("failure_*")), "it wrote into the folder")
    for pid in first.pids(str(where)):
        os.kill(pid, signal.SIGTERM)
    first.wait()
    require(set(first.codes().values()) == {75}, "not 75", first)
    require(not (where / "lease.json").exists(), "the lease is still there")


def clock(folder):
    """The time of day jumps by an hour on two of three ranks: nobody is lost,
    nothing changes."""
    library = pathlib.Path(PIPEWRIGHT).parent / "libclock_jump.so"
    prefixes = [["env", f"LD_PRELOAD={library}", f"CLOCK_JUMP={jump}"]
                for jump in (3600, -3600, 0)]
    where = folder / "clock"
    run = train(folder, plan(folder, 3), where, "--stall-limit", STALL,
                "--inject", "stop:rank=2,step=5,action=F0,seconds=2",
                prefixes=prefixes).wait()
    require(set(run.codes().values()) == {0}, "not well", run)
    require(run.seconds > 2, "it ended before the clocks jumped", run)
    require(checkpoint(where, 12) == checkpoint(unbroken(folder), 12),
            "other weights", run)


def corrupted(folder):
    """A bit flips in one of the messages: with --checksum all end, whoever
    received it with 76, and no checkpoint has other weights."""
    library = pathlib.Path(PIPEWRIGHT).parent / "libbit_flip.so"
    draw = random.Random(3)
    for i in range(6):
        sender, message = i % 3, draw.randrange(15, 90)
        where = folder / f"corrupted{i}"
        prefix = ["env", f"LD_PRELOAD={library}", f"BIT_FLIP_RANK={sender}",
                  f"BIT_FLIP={message}"]
        run = train(folder, plan(folder, 3), where, "--checksum",
                    prefixes=[prefix] * 3).wait()
        codes = set(run.codes().values())
        require(76 in codes and codes <= {75, 76}, f"message {message}", run)
        one_line(run, f"rank {sender} .*other bits than")
        for saved in sorted((where / "checkpoints").glob("step-*")):
            step = int(saved.name.split("-")[1])
            require(checkpoint(where, step) ==
                    checkpoint_of_steps(folder, step),
                    f"message {message}: other weights at {step}", run)
        nothing_left(where, run)


def listening_ports(pids):
    """Ports on which these processes wait for connections."""
    inodes = set()
    for pid in pids:
        try:
            for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
                inodes.update(found.groups() if found else ())
        except OSError:
            pass
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text() \
                .splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def strangers(folder):
    """Others connect to every port of every rank from the start, and say
    nothing or nonsense: they are dropped, and the weights are the same."""
    where = folder / "strangers"
    draw = random.Random(3)
    run = train(folder, plan(folder, 3), where, steps=12)
    held, met = [], set()
    while run.process.poll() is None:
        for port in listening_ports(run.pids(str(where))) - met:
            met.add(port)
            for kind in ("nothing", "nonsense", "gone"):
                try:
                    peer = socket.create_connection(("127.0.0.1", port), 1)
                except OSError:
                    continue
                if kind == "nonsense":
                    peer.sendall(draw.randbytes(4096))
                if kind == "gone":
                    peer.close()
                held.append(peer)
        time.sleep(0.005)
    run.wait()
    for peer in held:
        peer.close()
    require(met, "no port was found", run)
    require(set(run.codes().values()) == {0}, "not well", run)
    require(checkpoint(where, 12) == checkpoint(unbroken(folder), 12),
            "other weights", run)
    print(f"strangers: {len(held)} connections to {len(met)} ports")


SUPERVISE = pathlib.Path(__file__).resolve().parents[3] / "tools" / "supervise"


def long_run(folder, where, steps):
    return [PIPEWRIGHT, "train", plan(folder, 2), "--data", "digits", "--run",
            where, "--steps", steps, "--checkpoint-every", 50, "--seed", 7,
            "--profile", folder / "profile.json"]


def supervised(folder):
    """tools/supervise: killed five times and started again, a training comes to
    the bits of an unbroken one, with every step once in its metrics; a crash
    that comes back is given up after three restarts."""
    unread = subprocess.run(["sh", "-c", '"$0" --help | true', SUPERVISE],
                            stderr=subprocess.PIPE, check=True)
    require(not unread.stderr, f"--help | true: {unread.stderr.decode()}")
    where, whole, steps = folder / "killed", folder / "whole", 600
    pipewright(*long_run(folder, whole, steps)[1:])
    output = open(folder / "output-supervised", "w+")
    process = subprocess.Popen(
        list(map(str, [SUPERVISE, *long_run(folder, where, steps)])),
        stdout=output, stderr=subprocess.STDOUT)
    draw, seen, kills = random.Random(4), 0, 0
    killed, restarts = None, []  # the last kill; seconds from a kill to a step
    while process.poll() is None and (kills < 5 or killed):
        metrics = where / "metrics.jsonl"
        lines = metrics.read_text().count("\n") if metrics.exists() else 0
        if killed and lines > seen:
            restarts.append(time.monotonic() - killed)
            killed = None
        if kills < 5 and lines >= seen + draw.randrange(30, 90):
            for pid in child_pids(process.pid):
                os.kill(pid, signal.SIGKILL)
            killed, kills, seen = time.monotonic(), kills + 1, lines
        time.sleep(0.002)
    code = process.wait(200)
    said = pathlib.Path(output.name).read_text()
    require(code == 0 and kills == 5, f"{code} after {kills} kills\n{said}")
    require(checkpoint(where, steps) == checkpoint(whole, steps),
            "other weights")
    found = [json.loads(line)["step"] for line in
             (where / "metrics.jsonl").read_text().splitlines()]
    require(found == list(range(1, steps + 1)), "steps are missing or twice")
    require(losses(where) == losses(whole), "other losses")
    require(len(restarts) == 5 and sorted(restarts)[2] <= 10,
            f"restarted slowly: {restarts}")
    print(f"supervised: the first new step {max(restarts):.1f} s after a kill at most")

    from_the_start(folder)
    after_the_end(folder)
    without_memory(folder)

    where = folder / "loop"
    done = subprocess.run(
        list(map(str, [SUPERVISE, *long_run(folder, where, 200), "--inject",
                       "kill:rank=1,step=60"])), text=True, capture_output=True)
    require(done.returncode == 75, f"{done.returncode}\n{done.stderr}")
    # The first start saves step 50; then three more that save nothing.
    require(done.stderr.count("supervise: ended with 137") == 4,
            done.stderr)
    require("3 restarts without a new checkpoint" in done.stderr, done.stderr)


def after_the_end(folder):
    """A host that dies after the last step leaves the others waiting: they are
    started again, and have nothing to do."""
    where = folder / "over"
    where.mkdir()
    script = 'test -e "$1"/summary.json || { echo {} >"$1"/summary.json; exec sleep 99; }'
    done = subprocess.run(
        list(map(str, [SUPERVISE, "sh", "-c", script, "train", where, "--run",
                       where])), text=True, capture_output=True, timeout=60)
    require(done.returncode == 0, f"{done.returncode}\n{done.stderr}")
    require(done.stderr.count("supervise: ended with 137") == 1, done.stderr)


def from_the_start(folder):
    """A rank that does not come is waited for again; a folder that another
    process has is not: both are 69."""
    where, flag = folder / "late", folder / "flag"
    late = (f'[ $OMPI_COMM_WORLD_RANK = 1 ] && [ ! -e {flag} ] && '
            f'touch {flag} && exec sleep 1000; exec "$@"')

    # An mpirun that ends the other ranks where one fails, as users' does.
    environment = {name: value for name, value in ENVIRONMENT.items()
                   if not name.startswith("OMPI_MCA_orte")}

    def supervise(*command):
        return subprocess.run(
            list(map(str, [SUPERVISE, MPIRUN, "-n", 2, *command])), text=True,
            capture_output=True, env=environment, timeout=100)

    done = supervise("sh", "-c", late, "sh", *long_run(folder, where, 60),
                     "--set-up-limit", 8)
    require(done.returncode == 0, f"{done.returncode}\n{done.stderr}")
    require("missing 8 s after the start: rank 1" in done.stderr and
            done.stderr.count("supervise: ended with 75") == 1, done.stderr)
    checkpoint(where, 60)

    holder = subprocess.Popen(
        list(map(str, [*long_run(folder, where, 10**9), "--resume"])),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: max(losses(where)) > 60, "no steps", None)
    done = supervise(*long_run(folder, where, 10**9))
    holder.kill()
    holder.wait()
    require(done.returncode == 69 and "in use by process" in done.stderr and
            "supervise: " not in done.stderr, f"{done.returncode} {done.stderr}")


def without_memory(folder):
    """A rank that has no memory, or cannot run an operator, is not started again,
    though another has lost it."""
    for code in (71, 78):
        where = folder / f"hopeless-{code}"
        where.mkdir()
        script = (f'echo \'{{"exit_code": {code}}}\' >"$1"/failure_1.json; '
                  'echo \'{"exit_code": 75}\' >"$1"/failure_0.json; exit 75')
        done = subprocess.run(
            list(map(str, [SUPERVISE, "sh", "-c", script, "train", where, "--run",
                           where])), text=True, capture_output=True, timeout=60)
        require(done.returncode == code and "ended with" not in done.stderr,
                f"{done.returncode}\n{done.stderr}")


def child_pids(parent):
    text = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in text.split()]


def launcher_dies(folder):
    """mpirun, or tools/supervise, is killed: the training saves and ends."""
    where = folder / "mpirun-dies"
    process = subprocess.Popen(
        [MPIRUN, "-n", "2", *map(str, long_run(folder, where, 10**9))],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    check_orphans(where, process)
    where = folder / "supervise-dies"
    process = subprocess.Popen(
        list(map(str, [SUPERVISE, *long_run(folder, where, 10**9)])),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    check_orphans(where, process)
    checkpoint(where, max(losses(where)))


def check_orphans(where, process):
    metrics = where / "metrics.jsonl"
    until(lambda: metrics.exists() and metrics.stat().st_size, "no steps", None)
    process.kill()
    process.wait()
    begin = time.monotonic()
    until(lambda: not pids_of(str(where)), "processes are left", None, 20)
    print(f"{where.name}: gone after {time.monotonic() - begin:.1f} s")


def checkpoint_of_steps(folder, steps):
    run = folder / f"alone{steps}"
    if not run.exists():
        pipewright("train", plan(folder, 3), "--data", "digits", "--run", run,
                   "--steps", steps, "--seed", 7, "--profile",
                   folder / "profile.json")
    return checkpoint(run, steps)


if __name__ == "__main__":
    sys.exit(run_cases(globals(), sys.argv[3:]))
