#!/usr/bin/env python3
"""Hosts and links that fail, and what pipewright promises about each.

    network.py PIPEWRIGHT MPIRUN CASE...

A case is a function below. Each starts ranks on the hosts of a cluster in a box
(experiments/network/box.py): one rank per host, which has its own name and its
own link. Prints "skipped: ..." where namespaces are not allowed.
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
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "experiments/network"), str(ROOT / "experiments")]

import box as boxes  # noqa: E402
from claims import program  # noqa: E402
from ranks_in_box import launcher, place  # noqa: E402
from topology import BadTopology, read_topology  # noqa: E402
from runs import (PIPEWRIGHT, STOPS_WITHIN, Failed, check_report,  # noqa: E402
                  checkpoint, losses, nothing_left, one_line, pipewright, plan,
                  require, run_cases, train, until)

HOSTS = ("red", "green", "blue")
TOPOLOGY = {"switches": {"core": None},
            "hosts": {host: {"switch": "core", "rate": "100mbit", "share": 0.4}
                      for host in HOSTS}}
# Users' hosts are not alike.
ENVIRONMENTS = (("OMP_NUM_THREADS=3", "LC_ALL=de_DE.UTF-8"),
                ("-u", "HOME", "TZ=Asia/Tokyo", "MALLOC_ARENA_MAX=1"),
                ("OMP_NUM_THREADS=1", "MKL_NUM_THREADS=4", "LANG=C"))
# Steps enough that a fault comes while they are made.
STEPS, EVERY, FAULT_AT = 400, 40, 100
STALL = 4  # --stall-limit


def training(folder, name):
    return ["train", plan(folder, 3), "--data", "digits", "--run",
            folder / name, "--steps", STEPS, "--checkpoint-every", EVERY,
            "--seed", 7, "--profile", folder / "profile.json"]


def started(box, folder, name, *options):
    """One rank per host."""
    command = [*training(folder, name), *options]
    again = "-again" * ("--resume" in options)
    return train(folder, None, folder / name, name=name + again,
                 commands=[command] * 3,
                 prefixes=[["env", *each] for each in ENVIRONMENTS],
                 launcher=list(map(str, launcher(box, folder))),
                 places=[["-x", "CODES", *place(box, host)] for host in HOSTS])


def whole(folder):
    """In one process: the weights that every run must come to."""
    run = folder / "whole"
    if not run.exists():
        pipewright(*training(folder, run.name))
    return run


def reached(folder, name, run, step=FAULT_AT):
    """Waits until it is time for a fault."""
    until(lambda: newest_step(folder / name) >= step, "no steps", run,
          pause=0.02)


def newest_step(run):
    return max(losses(run), default=0) if (run / "metrics.jsonl").exists() else 0


def ends_well(run, folder, name):
    run.wait()
    require(set(run.codes().values()) == {0}, "not well", run)
    has_whole_bits(folder, name)


def has_whole_bits(folder, name):
    require(checkpoint(folder / name, STEPS) == checkpoint(whole(folder), STEPS),
            f"the weights of {name} are others")
    require(losses(folder / name) == losses(whole(folder)),
            f"the losses of {name} are others")


def is_lost(run, folder, name, lost, within):
    """The other ranks name the lost one and its host, in one line, end with 75
    and leave nothing; --resume comes to the same bits."""
    begin = time.monotonic()
    others = set(range(3)) - {lost}
    until(lambda: others <= set(run.codes()), "ranks go on", run, within)
    print(f"{name}: named after {time.monotonic() - begin:.1f} s")
    require(all(run.codes()[rank] == 75 for rank in others), "not 75", run)
    says = f"rank {lost} on {HOSTS[lost]} (was lost|has been silent)"
    # mpirun passes on what ranks print, some time later.
    until(lambda: re.search(says, run.text()), f"nobody says: {says}", run, 10)
    require(len(one_line(run, says)) == 1, "not one line for all", run)
    for rank in others:
        report = check_report(folder / name, rank, 75)
        require(re.search(says, report["error"]), f"{report}", run)


def goes_on(box, folder, name):
    run = started(box, folder, name, "--resume")
    ends_well(run, folder, name)
    nothing_left(folder / name, run)


def sockets(folder):
    """Without MPI: ranks on several hosts meet at the first and give the bits of
    one process; where a host's rank dies they name it, and resume."""
    with boxes.Box(TOPOLOGY) as box:
        def start(name, *options):
            where = [f"MASTER_ADDR={box.addresses[HOSTS[0]]}",
                     "MASTER_PORT=29577"]
            again = "-again" * ("--resume" in options)
            return train(folder, None, folder / name, name=name + again,
                         commands=[[*training(folder, name), *options]] * 3,
                         prefixes=[[*box.command(host, ["env", *where])]
                                   for host in HOSTS])
        ends_well(start("sockets"), folder, "sockets")
        run = start("dies", "--inject", f"kill:rank=2,step={FAULT_AT}")
        is_lost(run, folder, "dies", 2, 30)
        run.wait()
        ends_well(start("dies", "--resume"), folder, "dies")


def bits(folder):
    """Ranks on several hosts, of different environments, give the bits of one
    process, and know where they are."""
    cluster = folder / "cluster.json"
    def planned_on(hosts):
        cluster.write_text(json.dumps({
            "format": "pipewright/cluster", "version": 1, "name": "box",
            "devices": [{"kind": "cpu", "host": i, "name": f"{host}/cpu"}
                        for i, host in enumerate(hosts)],
            "within_hosts": {"bandwidth": "1GB/s"},
            "between_hosts": {"bandwidth": "100Mb/s"}}))
    with boxes.Box(TOPOLOGY) as box:
        planned_on(HOSTS)
        run = started(box, folder, "bits", "--cluster", cluster)
        ends_well(run, folder, "bits")
        planned_on(reversed(HOSTS))
        run = started(box, folder, "swapped", "--cluster", cluster).wait()
        require(set(run.codes().values()) == {78}, "not 78", run)
        one_line(run, "planned on host blue.*runs on red")


def host_dies(folder):
    """All processes of a host are killed, the launcher's daemon with them."""
    with boxes.Box(TOPOLOGY) as box:
        run = started(box, folder, "dies")
        reached(folder, "dies", run)
        boxes.kill(box.pids("green"))
        is_lost(run, folder, "dies", 1, STOPS_WITHIN)
        goes_on(box, folder, "dies")


def host_silent(folder):
    """A host loses its power: no packet comes from it any more, and nobody
    closes its connections."""
    with boxes.Box(TOPOLOGY) as box:
        run = started(box, folder, "silent", "--stall-limit", STALL)
        reached(folder, "silent", run)
        box.cut("blue")
        boxes.kill(box.pids("blue"), signal.SIGSTOP)
        is_lost(run, folder, "silent", 2, STALL + STOPS_WITHIN)
        boxes.kill(box.pids("blue"))
        box.join("blue")
        goes_on(box, folder, "silent")


def link_cut(folder):
    """A link that comes back within the limit costs time only; one that does
    not is a host that is lost."""
    with boxes.Box(TOPOLOGY) as box:
        run = started(box, folder, "short", "--stall-limit", 10)
        reached(folder, "short", run)
        box.cut("green")
        time.sleep(3)
        require(not run.codes(), "ended", run)
        box.join("green")
        ends_well(run, folder, "short")
        run = started(box, folder, "long", "--stall-limit", STALL)
        reached(folder, "long", run)
        box.cut("green")
        is_lost(run, folder, "long", 1, STALL + STOPS_WITHIN)
        box.join("green")
        goes_on(box, folder, "long")


def host_slow(folder):
    """A host with hardly any core and a link of 0.2 Mb/s holds the others up,
    and is not lost."""
    with boxes.Box(TOPOLOGY) as box:
        run = started(box, folder, "slow", "--stall-limit", STALL)
        reached(folder, "slow", run)
        box.set_share("green", 0.05)
        box.set_rate("green", "200kbit")
        time.sleep(2 * STALL)
        require(not run.codes(), "ended", run)
        box.set_share("green", 0.4)
        box.set_rate("green", "100mbit")
        ends_well(run, folder, "slow")


class Supervised:
    """tools/supervise with one rank per host; an elastic one starts mpirun on the
    hosts that are switched on."""

    def __init__(self, box, folder, name, elastic=False):
        self.box, self.folder = box, folder
        self.run, self.output = folder / name, folder / f"output-{name}"
        for host in HOSTS:
            self.on(host).touch()
        everywhere = ",".join(box.addresses[host] for host in HOSTS)
        hosts = ["--hosts", everywhere, "--probe", f"test -e {folder}/on-{{}}"]
        place = ["-n", 3, "--host", everywhere]
        with open(self.output, "w") as said:
            self.process = subprocess.Popen(
                list(map(str, [ROOT / "tools/supervise", *hosts * elastic,
                               *launcher(box, folder), *place * (not elastic),
                               PIPEWRIGHT, *training(folder, name),
                               *["--elastic"] * elastic, "--stall-limit", STALL,
                               "--set-up-limit", 20])),
                stdout=said, stderr=subprocess.STDOUT)

    def on(self, host):
        return self.folder / f"on-{self.box.addresses[host]}"

    def switch_off(self, host):
        self.on(host).unlink()
        self.box.cut(host)
        boxes.kill(self.box.pids(host))

    def switch_on(self, host):
        self.box.join(host)
        self.on(host).touch()

    def said(self, part):
        return self.output.read_text().count(part)

    def printed_step(self):
        """The last one: metrics are written with checkpoints only."""
        steps = re.findall(rf"step (\d+)/{STEPS} ", self.output.read_text())
        return int(steps[-1]) if steps else 0

    def restarts(self):
        return self.said("supervise: ended with")

    def ends_well(self, folder):
        code = self.process.wait(100)
        require(code == 0, f"{code}\n{self.output.read_text()}")
        has_whole_bits(folder, self.run.name)


def supervised(folder):
    """tools/supervise goes on after a host that fell silent, for which mpirun
    would wait, and after one that died, for which mpirun has another code."""
    with boxes.Box(TOPOLOGY) as box:
        run = Supervised(box, folder, "supervised")
        reached(folder, "supervised", None)
        frozen = box.pids("blue")
        box.cut("blue")
        boxes.kill(frozen, signal.SIGSTOP)
        until(lambda: run.restarts() == 1, "no restart", None)
        boxes.kill(frozen)
        box.join("blue")
        reached(folder, "supervised", None, 2 * FAULT_AT)
        boxes.kill(box.pids("green"))
        until(lambda: run.restarts() == 2, "no second restart", None)
        run.ends_well(folder)


def random_kills(folder, kills=4, seed=3):
    """Hosts die one after the other at random moments, each after a checkpoint
    that the one before did not see; the run ends, every step is there once, and
    the bits are those of an unbroken one."""
    draw = random.Random(seed)
    with boxes.Box(TOPOLOGY) as box:
        run = Supervised(box, folder, "killed")
        for kill in range(kills):
            reached(folder, "killed", None, newest_step(run.run) + EVERY
                    + draw.randrange(EVERY // 2))
            host = draw.choice(HOSTS)
            boxes.kill(box.pids(host))
            until(lambda: run.restarts() == kill + 1,
                  f"no restart after {host} died\n{run.output.read_text()}", None)
        run.ends_well(folder)
    found = [json.loads(line)["step"] for line in
             (folder / "killed" / "metrics.jsonl").read_text().splitlines()]
    require(found == list(range(1, STEPS + 1)), "steps are missing or twice")


def loses_and_regains(folder, run, host, wait, slowly=False):
    """A host is switched off after `wait`, while the run goes on, and on again
    once the others have gone on; every step is made once, and none is lost beyond
    the last checkpoint."""
    wait()
    before, ended = newest_step(run.run), run.restarts()
    run.switch_off(host)
    def is_over():
        return run.process.poll() is not None
    until(lambda: run.restarts() > ended or is_over(),
          f"no restart after {host} died\n{run.output.read_text()}", None)
    require(run.restarts() > ended, f"ended without a restart after {host} died\n"
            + run.output.read_text())
    until(lambda: is_over() or newest_step(run.run) > before,
          f"nothing goes on\n{run.output.read_text()}", None)
    run.switch_on(host)
    if slowly:  # so that it is asked before the others have ended
        for other in HOSTS:
            run.box.set_share(other, 0.05)
        until(lambda: run.said("answers again") or is_over(), "not asked", None)
        for other in HOSTS:
            run.box.set_share(other, 0.4)
    run.ends_well(folder)
    found = [json.loads(line)["step"] for line in
             (run.run / "metrics.jsonl").read_text().splitlines()]
    require(found == list(range(1, STEPS + 1)), "steps are missing or twice")


def elastic(folder):
    """A host is lost: the others plan for themselves and go on; it comes back and
    is taken in; the bits are those of an unbroken run."""
    with boxes.Box(TOPOLOGY) as box:
        run = Supervised(box, folder, "elastic", elastic=True)
        loses_and_regains(folder, run, "green",
                          lambda: reached(folder, "elastic", None), slowly=True)
        for part in ("no answer from 10.213.0.2", "10.213.0.2 answers again",
                     "2 ranks, and the plan has 3 workers: planned again"):
            require(run.said(part) == 1, f"not once: {part}\n"
                    + run.output.read_text())


def while_ranks_start(run, share):
    """Waits until hosts are chosen, and then this part of a second."""
    until(lambda: run.said("starts on"), "no start", None)
    time.sleep(share)


def after_step(run, step, share):
    """Waits until a step is printed, and then this part of the time between two
    checkpoints, at the pace of the run."""
    until(lambda: run.printed_step() > 0, "no step", None, pause=0.02)
    first, begin = run.printed_step(), time.monotonic()
    until(lambda: run.printed_step() >= max(step, first + 1), f"no step {step}",
          None, pause=0.02)
    pace = (time.monotonic() - begin) / (run.printed_step() - first)
    time.sleep(share * EVERY * pace)


def elastic_kills(folder, runs=50, seed=5):
    """Of each run a random host dies at a random moment: of every fourth while
    ranks start, of the others in the first half of the steps, so that none ends
    before it is noticed."""
    draw = random.Random(seed)
    for i in range(runs):
        with boxes.Box(TOPOLOGY) as box:
            name, host = f"run{i}", draw.choice(HOSTS)
            step, share = draw.randrange(1, STEPS // 2), draw.random()
            run = Supervised(box, folder, name, elastic=True)
            def wait():
                if i % 4 == 0:
                    while_ranks_start(run, share)
                else:
                    after_step(run, step, share)
                print(f"{i + 1} of {runs}: {host} off, newest printed step "
                      f"{run.printed_step()}", end="", flush=True)
            loses_and_regains(folder, run, host, wait)
            print(f", {run.restarts()} restarts", flush=True)
            shutil.rmtree(run.run)


def rounding(row):
    """How far the error of a row may be from that of its printed times, which
    are whole milliseconds, in percent."""
    half = 0.5e-3
    largest = (row[2] + half) / (row[3] - half)
    return (largest - row[2] / row[3]) * 100 + 0.1


def table(folder):
    """The experiment prints a row per planner, and what follows from the rows."""
    planners = ["uniform", "data-parallel"]
    file = folder / "two.json"
    file.write_text(json.dumps({
        "name": "two hosts", "switches": {"core": None},
        "hosts": {host: {"switch": "core", "rate": "50mbit", "share": 0.4}
                  for host in HOSTS[:2]},
        "training": {"model": "mlp:features=64,hidden=64,classes=10",
                     "microbatch": 512, "minibatch": 2048,
                     "planners": planners}}))
    done = subprocess.run(
        [sys.executable, ROOT / "experiments/network/run", "--pipewright",
         PIPEWRIGHT, file], text=True, capture_output=True, check=False)
    require(done.returncode == 0, f"{done}")
    experiment = program("network")
    rows, = experiment.tables_of(done.stdout)
    require([row[0] for row in rows] == planners, done.stdout)
    require(all(row[3] > 0 and
                abs(experiment.error(row) - row[4]) <= rounding(row)
                for row in rows), f"the errors are others\n{done.stdout}")
    require(done.stdout.splitlines()[1] ==
            "two hosts: mlp:features=64,hidden=64,classes=10, 2 hosts"
            and "2 predictions: absolute error" in done.stdout, done.stdout)


def removed(folder):
    """A box leaves nothing, however its process ends."""
    script = folder / "script.py"
    script.write_text(f"""
import json, subprocess, sys
sys.path.insert(0, {str(ROOT / "experiments/network")!r})
import box as boxes
with boxes.Box({TOPOLOGY!r}) as box:
    subprocess.Popen(box.command("red", ["sleep", "1000"]))
    print(len(box.pids("red")), flush=True)
    subprocess.run(box.command("green", ["sleep", "1000"]))
""")
    def left(pid):
        return [name for name in boxes.namespaces() + boxes.groups()
                if name.startswith(f"pw{pid}-")]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP,
                   signal.SIGKILL):
        process = subprocess.Popen([sys.executable, script], text=True,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        process.stdout.readline()
        require(len(left(process.pid)) == 7, f"no box: {left(process.pid)}")
        process.send_signal(number)
        process.wait()
        if number == signal.SIGKILL:
            require(left(process.pid), "removed by nobody")
            with boxes.Box(TOPOLOGY):
                pass
        require(not left(process.pid),
                f"{number.name} leaves {left(process.pid)}")


def refused(folder):
    """Where there can be no box, the reason is printed and nothing is made."""
    os.seteuid(65534)
    try:
        boxes.needed()
        raise Failed("a box without root")
    except boxes.NoBox as reason:
        require("root" in str(reason), f"another reason: {reason}")
    finally:
        os.seteuid(0)
    done = subprocess.run([sys.executable, ROOT / "experiments/network/run",
                           "--keep", folder / "kept"], text=True,
                          capture_output=True, check=False, env={"PATH": ""})
    require(done.returncode == 0 and done.stdout ==
            "skipped: no cluster in a box here: ip is not installed\n",
            f"not refused: {done}")


def bad_topologies(folder):
    """A topology that is wrong is refused with its key, before anything is made;
    none crashes."""
    sound = json.loads(
        (ROOT / "experiments/network/topologies/rack.json").read_text())
    file = folder / "bad.json"

    def says(key, value, part, text=None):
        broken = json.loads(json.dumps(sound))
        *path, last = key.split(".") if key else [None]
        place = broken
        for step in path:
            place = place[step]
        if key:
            place[last] = value
        file.write_text(text or json.dumps(broken))
        try:
            read_topology(file)
            raise Failed(f"{key} = {value} is taken")
        except BadTopology as error:
            require(part in str(error) and str(file) in str(error), f"{error}")

    says("", None, "Expecting", text="{")
    says("", None, "not an object", text="[1]")
    says("colour", 1, "unknown keys: colour")
    says("hosts.a.rate", "20 Mb/s", "host a has the rate '20 Mb/s'")
    says("hosts.a.rate", 20, "host a has the rate 20")
    says("hosts.a.switch", "nowhere", "unknown switch 'nowhere'")
    says("hosts.a.switch", ["core"], "wrong type")
    says("hosts.a.share", 0, "host a has the share 0")
    says("hosts.a", None, "host a is not an object")
    says("hosts", {}, "hosts is not an object of 2")
    says("hosts.Long-name", {}, "'Long-name' is not a name")
    says("switches.core", {"to": "rack", "rate": "1mbit"}, "0 roots")
    says("switches.rack.to", "rack", "does not lead to the root")
    says("switches.rack.to", "away", "does not lead to the root")
    says("pairs", [{"between": ["a", "z"], "rate": "1mbit"}], "not two hosts")
    says("pairs", [{"between": ["a", "b"], "rate": "1mbit"}] * 2, "is twice")
    says("training.microbatch", 65, "the microbatch is not a multiple")
    says("training", {"model": "lenet"}, "training lacks microbatch")
    done = subprocess.run([sys.executable, ROOT / "experiments/network/run",
                           file], text=True, capture_output=True, check=False)
    require(done.returncode == 65 and "training lacks" in done.stderr, f"{done}")


def wrong_arguments(folder):
    """An unknown model or planner, a program that is not there and a folder that
    exists are each said in a line, before anything is measured."""
    sound = {"name": "two hosts", "switches": {"core": None},
             "hosts": {host: {"switch": "core", "rate": "50mbit", "share": 0.4}
                       for host in HOSTS[:2]}}
    training = {"model": "lenet", "microbatch": 64, "minibatch": 512}
    file = folder / "two.json"

    def says(code, part, change, *options):
        file.write_text(json.dumps(sound | {"training": training | change}))
        done = subprocess.run(
            [sys.executable, ROOT / "experiments/network/run", "--pipewright",
             PIPEWRIGHT, *options, file], text=True, capture_output=True,
            check=False)
        require(done.returncode == code and not done.stdout
                and done.stderr.startswith("network: ")
                and done.stderr.count("\n") == 1 and part in done.stderr,
                f"{change}: {done}")

    says(78, 'unknown model "lenett"', {"model": "lenett"})
    says(78, 'unknown planner "sppp"', {"planners": ["spp", "sppp"]})
    says(66, "no such program", {}, "--pipewright", folder / "nothing")
    (folder / "kept/two").mkdir(parents=True)
    says(73, "exists", {}, "--keep", folder / "kept")


def main():
    try:
        with boxes.Box(TOPOLOGY):
            pass
    except boxes.NoBox as reason:
        print(f"skipped: no cluster in a box here: {reason}")
        return 0
    return run_cases(globals(), sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
