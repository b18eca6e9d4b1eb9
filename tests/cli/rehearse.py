#!/usr/bin/env python3
"""`rehearse`: the plan for the hosts that remain is that of a cluster which never
had the lost one, with the microbatch of before where that fits, and without
replicas where there were none.

    rehearse.py PIPEWRIGHT
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PIPEWRIGHT = sys.argv[1]
MODEL = "mlp:features=64,hidden=1024,layers=3"
BUDGET = ("--budget", "100")  # both search to the end


def planned(cluster, *options, microbatch=("--microbatch", "8")):
    return json.loads(subprocess.run(
        [PIPEWRIGHT, "plan", "--model", MODEL, "--cluster", cluster,
         "--minibatch", "64", *microbatch, "--json", *BUDGET, *options],
        capture_output=True, text=True, check=True).stdout)


def rehearsed(plan, cluster, *options):
    return subprocess.run(
        [PIPEWRIGHT, "rehearse", plan, "--cluster", cluster, *BUDGET, *options],
        capture_output=True, text=True, check=False)


def is_unreplicated(plan):
    return all(len(stage["devices"]) == 1 for stage in plan["stages"])


def best_without_replicas(cluster, devices):
    plan = planned(cluster)
    return plan if is_unreplicated(plan) else planned(cluster, "--stages",
                                                      str(devices))


class Rehearse(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.plan = pathlib.Path(self.folder.name) / "plan.json"

    def tearDown(self):
        self.folder.cleanup()

    def rows(self, cluster, planner, *options):
        now = planned(cluster, "--planner", planner, "-o", str(self.plan))
        done = rehearsed(self.plan, cluster, "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["step_seconds"], now["step_seconds"])
        return now, found["hosts"]

    def check(self, cluster, smaller, planner="auto"):
        """`smaller`: the cluster without each host, and its devices."""
        now, rows = self.rows(cluster, planner)
        self.assertEqual(len(rows), len(smaller))
        for row, (rest, devices) in zip(rows, smaller):
            plan = (best_without_replicas(rest, devices)
                    if is_unreplicated(now) else planned(rest, microbatch=()))
            self.assertAlmostEqual(row["step_seconds"] / plan["step_seconds"], 1)
            self.assertEqual(row["keeps_microbatch"],
                             row["plan"]["microbatch"] == 8)
            if is_unreplicated(now):
                self.assertTrue(row["keeps_microbatch"])
            self.assertEqual(row["keeps_bits"], is_unreplicated(now))
            self.assertEqual(row["plan"]["devices"], list(range(devices)))
        return rows

    def test_equal_hosts(self):
        self.check("3x1xV100/10GbE", [("2x1xV100/10GbE", 2)] * 3)

    def test_unequal_hosts(self):
        self.check("1x2xV100+1x1xT4@pcie3/10GbE",
                   [("1xT4", 1), ("2xV100@pcie3", 2)])

    def test_last_host(self):
        _, rows = self.rows("2xV100", "auto")
        self.assertEqual([row["refused"] for row in rows], ["no host is left"])

    def test_bits(self):
        """Without replicas before there are none after, though data parallelism
        is faster here."""
        self.check("3x1xV100/10GbE", [("2x1xV100/10GbE", 2)] * 3, "balanced")
        rows = self.check("3x1xV100/10GbE", [("2x1xV100/10GbE", 2)] * 3,
                          "data-parallel")
        self.assertFalse(any(row["keeps_bits"] for row in rows))

    def test_microbatch(self):
        """One that does not fit any more becomes smaller, and is named."""
        cluster = {"format": "pipewright/cluster", "version": 1, "name": "x",
                   "kinds": [{"name": "small", "peak": {"float32": 1e12},
                              "memory": "6MB", "memory_bandwidth": "100GB/s"}],
                   "devices": [{"kind": "small", "host": i, "name": f"host{i}/x"}
                               for i in range(2)],
                   "within_hosts": {"bandwidth": "1GB/s"},
                   "between_hosts": {"bandwidth": "1GB/s"}}
        file = pathlib.Path(self.folder.name) / "cluster.json"
        model = "mlp:features=64,hidden=64,layers=8"
        for size in range(1300, 2000, 100):  # of memory, in kB
            cluster["kinds"][0]["memory"] = f"{size}kB"
            file.write_text(json.dumps(cluster))
            done = subprocess.run(
                [PIPEWRIGHT, "plan", "--model", model, "--cluster", file,
                 "--minibatch", "4096", "--microbatch", "512", "--planner",
                 "balanced", "-o", self.plan], capture_output=True, check=False)
            if done.returncode:
                continue
            row = json.loads(rehearsed(self.plan, file, "--json").stdout)[
                "hosts"][0]
            if "refused" in row or row["keeps_microbatch"]:
                continue
            self.assertLess(row["plan"]["microbatch"], 512)
            self.assertFalse(row["keeps_bits"])
            self.assertRegex(
                rehearsed(self.plan, file).stdout,
                rf"\nhost0 .* {row['plan']['microbatch']}  other  layers ")
            return
        self.fail("no such memory")

    def test_links_between_names(self):
        """A cluster file whose links name devices: those of the lost host go."""
        names = ("a", "b", "c")
        def cluster(left):
            return {"format": "pipewright/cluster", "version": 1, "name": "x",
                    "devices": [{"kind": "V100", "host": i, "name": name}
                                for i, name in enumerate(left)],
                    "links": [{"from": one, "to": [other],
                               "bandwidth": f"{ord(one) * ord(other)}MB/s"}
                              for one in left for other in left if one < other]}
        files = []
        for left in (names, "bc", "ac", "ab"):
            file = pathlib.Path(self.folder.name) / f"{''.join(left)}.json"
            file.write_text(json.dumps(cluster(left)))
            files.append(str(file))
        rows = self.check(files[0], [(file, 2) for file in files[1:]])
        self.assertEqual([row["lost_devices"] for row in rows],
                         [[name] for name in names])

    def test_text(self):
        planned("2x1xV100/10GbE", "--planner", "balanced", "-o",
                str(self.plan))
        done = rehearsed(self.plan, "2x1xV100/10GbE", "--checkpoint-every", "40")
        first, lost, _, titles, one, two = done.stdout.splitlines()
        self.assertRegex(first, r"^now: step \S+ \S+, microbatch 8, layers 0-\d "
                         r"on host0, \d-\d on host1$")
        self.assertRegex(lost, r"^if a host dies: at most 40 steps are lost, "
                         r"\S+ m?s, and the next plan is planned in ")
        self.assertEqual(titles.split(), ["without", "step", "change",
                                          "microbatch", "bits", "then"])
        self.assertRegex(one, r"^host0 .* 8  same  layers 0-\d on host1$")
        self.assertRegex(two, r"^host1 .* 8  same  layers 0-\d on host0$")

    def written(self, stages):
        """A plan by hand: layers and workers of each stage, one microbatch."""
        workers = sorted({worker for _, on in stages for worker in on})
        def line(worker):
            own = [s for s, (_, on) in enumerate(stages) if worker in on]
            return " ".join([f"{worker}:", *(f"{s}F0" for s in own),
                             *(f"{s}B0" for s in reversed(own))])
        self.plan.write_text(json.dumps({
            "format": "pipewright/plan", "version": 1, "model": MODEL,
            "planner": "hand", "method": "sync", "minibatch": 64,
            "microbatch": 64, "replication": "split", "devices": workers,
            "stages": [{"layers": layers, "workers": on}
                       for layers, on in stages], "schedule_name": "",
            "schedule": [f"schedule v1 stages={len(stages)} microbatches=1",
                         *map(line, workers)]}))

    def now_on(self, cluster):
        """The present plan's stages, as printed."""
        done = rehearsed(self.plan, cluster)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()[0].split(", layers ")[1]

    def test_whole_hosts(self):
        """Are named once, with the buckets of the stage that is on them."""
        cluster = "4x2xV100@nvlink/10GbE"
        now = planned(cluster, "--planner", "data-parallel", "--bucket", "1MB",
                      "-o", str(self.plan))
        self.assertGreater(now["buckets"], 1)
        self.assertEqual(self.now_on(cluster),
                         f"0-7 ({now['buckets']} buckets) on host0..3")
        rows = rehearsed(self.plan, cluster).stdout.splitlines()[4:]
        self.assertEqual(len(rows), 4)
        for host, row in enumerate(rows):
            self.assertTrue(row.startswith(f"host{host} "), row)
            self.assertNotIn(f"host{host}", row[5:])

    def test_parts_of_hosts(self):
        cluster = "2x4xV100@nvlink/10GbE"
        self.written([("0-3", [0, 1, 2]), ("4-7", [3, 4, 5, 6, 7])])
        self.assertEqual(self.now_on(cluster), "0-3 on host0/V100.0..2, "
                         "4-7 on host0/V100.3+host1")
        self.written([("0-3", [0, 2, 5]), ("4-7", [1, 3, 4, 6, 7])])
        self.assertEqual(self.now_on(cluster),
                         "0-3 on host0/V100.0+host0/V100.2+host1/V100.1, "
                         "4-7 on host0/V100.1+host0/V100.3+host1/V100.0"
                         "+host1/V100.2+host1/V100.3")

    def test_stages_in_turn(self):
        """Stages on the same devices stand together."""
        self.written([("0-1", [0, 1]), ("2", [2, 3]), ("3-5", [0, 1]),
                      ("6-7", [2, 3])])
        self.assertEqual(self.now_on("2x2xV100@nvlink/10GbE"),
                         "0-1+3-5 on host0, 2+6-7 on host1")

    def test_names_without_hosts(self):
        """Where names do not tell hosts, devices are named."""
        file = pathlib.Path(self.folder.name) / "cluster.json"
        for names, text in (
                (("a", "b"), "0-3 on a, 4-7 on b"),
                (("x/a", "x/b"), "0-3 on x/a, 4-7 on x/b"),
                (("x/a", "y/b"), "0-3 on x, 4-7 on y")):
            file.write_text(json.dumps({
                "format": "pipewright/cluster", "version": 1, "name": "x",
                "devices": [{"kind": "V100", "host": i, "name": name}
                            for i, name in enumerate(names)],
                "between_hosts": {"bandwidth": "1GB/s"}}))
            self.written([("0-3", [0]), ("4-7", [1])])
            self.assertEqual(self.now_on(file), text)

    def test_refusals(self):
        planned("2xV100", "-o", str(self.plan))
        self.assertEqual(rehearsed("absent.json", "2xV100").returncode, 66)
        self.assertEqual(rehearsed(self.plan, "2xNoKind").returncode, 78)
        self.plan.write_text("{")
        self.assertEqual(rehearsed(self.plan, "2xV100").returncode, 65)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
