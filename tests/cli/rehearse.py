#!/usr/bin/env python3
"""tools/rehearse: the plan for the hosts that remain is that of a cluster which
never had the lost one.

    rehearse.py PIPEWRIGHT SOURCE_FOLDER
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PIPEWRIGHT, SOURCE = sys.argv[1:3]
REHEARSE = pathlib.Path(SOURCE) / "tools" / "rehearse"
MODEL = "mlp:features=64,hidden=1024,layers=3"
BUDGET = ("--budget", "100")  # both search to the end


def planned(cluster, *options):
    return json.loads(subprocess.run(
        [PIPEWRIGHT, "plan", "--model", MODEL, "--cluster", cluster,
         "--minibatch", "64", "--microbatch", "8", "--json", *BUDGET, *options],
        capture_output=True, text=True, check=True).stdout)


def rehearsed(plan, cluster, *options):
    return subprocess.run(
        [REHEARSE, plan, "--cluster", cluster, "--pipewright", PIPEWRIGHT,
         *BUDGET, *options], capture_output=True, text=True, check=False)


class Rehearse(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.plan = pathlib.Path(self.folder.name) / "plan.json"

    def tearDown(self):
        self.folder.cleanup()

    def check(self, cluster, smaller, planner="auto"):
        """`smaller`: the cluster without each host."""
        now = planned(cluster, "--planner", planner, "-o", str(self.plan))
        done = rehearsed(self.plan, cluster, "--checkpoint-every", "40")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, *rows = done.stdout.splitlines()
        self.assertIn(f"now: step {now['step_seconds'] * 1e3:.4g} ms", first)
        self.assertEqual(len(rows), len(smaller), done.stdout)
        for row, rest in zip(rows, smaller):
            step = planned(rest)["step_seconds"]
            self.assertIn(f": step {step * 1e3:.4g} ms (", row)
            self.assertIn("lost: at most 40 steps, "
                          f"{40 * now['step_seconds']:.3g} s", row)
        return rows

    def test_equal_hosts(self):
        self.check("3x1xV100/10GbE", ["2x1xV100/10GbE"] * 3)

    def test_unequal_hosts(self):
        self.check("1x2xV100+1x1xT4@pcie3/10GbE",
                   ["1xT4", "2xV100@pcie3"])

    def test_last_host(self):
        planned("2xV100", "-o", str(self.plan))
        done = rehearsed(self.plan, "2xV100")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no plan: no host is left", done.stdout)

    def test_bits(self):
        """Without replicas before and after, they stay."""
        rows = self.check("2x1xV100/10GbE", ["1xV100"] * 2, "balanced")
        self.assertTrue(all("; same bits;" in row for row in rows), rows)
        rows = self.check("2x1xV100/10GbE", ["1xV100"] * 2, "data-parallel")
        self.assertTrue(all("; other bits;" in row for row in rows), rows)

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
        rows = self.check(files[0], files[1:])
        self.assertEqual([re.match(r"without (\S+):", row)[1] for row in rows],
                         list(names))

    def test_refusals(self):
        planned("2xV100", "-o", str(self.plan))
        self.assertEqual(rehearsed("absent.json", "2xV100").returncode, 66)
        self.assertEqual(rehearsed(self.plan, "2xNoKind").returncode, 78)
        self.plan.write_text("{")
        self.assertEqual(rehearsed(self.plan, "2xV100").returncode, 65)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
