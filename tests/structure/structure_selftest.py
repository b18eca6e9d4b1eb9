#!/usr/bin/env python3
"""Tests structure.py on made trees: each rule must catch its breach."""

import pathlib
import tempfile
import unittest

import structure


class Structure(unittest.TestCase):
    def found(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                file = pathlib.Path(root, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            return list(structure.breaches(root))

    def includes(self, path, included):
        return self.found({path: f'// x\n#include "{included}"\n'})

    def test_every_pair_of_folders(self):
        allowed = {
            "model": "base",
            "cluster": "base",
            "profile": "base model cluster",
            "plan": "base model cluster profile",
            "schedules": "base model cluster profile plan",
            "planners": "base model cluster profile plan schedules",
            "timeline": "base model cluster profile plan",
            "simulate": "base model cluster profile plan timeline",
            "estimate": "base model cluster profile plan schedules planners "
                        "timeline simulate",
            "runtime": "base model cluster profile plan timeline",
        }
        for here in structure.SEES:
            for there in list(structure.SEES) + ["cli"]:
                path = "cli/a.h" if there == "cli" else f"pipewright/{there}/a.h"
                good = there == here or there in allowed.get(here, "").split()
                found = self.includes(f"pipewright/{here}/x.cc", path)
                self.assertEqual(len(found), 0 if good else 1, (here, there))

    def test_the_breach_names_file_line_and_reason(self):
        self.assertEqual(
            self.includes("pipewright/base/x.cc", "pipewright/plan/plan.h"),
            ["pipewright/base/x.cc:2: includes pipewright/plan/plan.h; "
             "base must not know plan"])

    def test_cli_and_tests_see_all(self):
        for path in ["cli/x.cc", "tests/plan/x_test.cc", "benchmarks/x.cc"]:
            for there in structure.SEES:
                self.assertEqual(
                    self.includes(path, f"pipewright/{there}/a.h"), [])

    def test_heavy_headers_stay_in_runtime(self):
        for header in ["torch/torch.h", "ATen/ATen.h", "c10/util/a.h", "mpi.h"]:
            text = f"#include <{header}>\n"
            self.assertEqual(self.found({"pipewright/runtime/x.cc": text}), [])
            for path in ["pipewright/plan/x.cc", "cli/x.cc", "tests/x.cc"]:
                self.assertEqual(len(self.found({path: text})), 1, path)

    def test_names_are_unique(self):
        same = {"pipewright/plan/x.cc": "", "pipewright/model/x.cc": ""}
        self.assertEqual(len(self.found(same)), 1)
        pair = {"pipewright/plan/x.cc": "", "pipewright/plan/x.h": "// x",
                "cli/x.cc": ""}
        self.assertEqual(self.found(pair), [])

    def test_length_opening_and_leftovers(self):
        self.assertEqual(self.found({"cli/x.cc": "\n" * 400}), [])
        self.assertEqual(len(self.found({"cli/x.cc": "\n" * 401})), 1)
        self.assertEqual(len(self.found({"cli/x.h": "#pragma once\n"})), 1)
        self.assertEqual(len(self.found({"cli/x.cc": "// TO" "DO: x\n"})), 1)

    def test_a_folder_nobody_knows(self):
        found = self.includes("pipewright/misc/x.cc", "pipewright/base/a.h")
        self.assertEqual(len(found), 1)


if __name__ == "__main__":
    unittest.main()
