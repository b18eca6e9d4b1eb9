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
            "report": "base model cluster profile plan schedules planners "
                      "timeline simulate estimate",
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
        for path in ["cli/x.cc", "tests/plan/x.h", "benchmarks/x.cc"]:
            for there in structure.SEES:
                self.assertEqual(
                    self.includes(path, f"pipewright/{there}/a.h"), [])

    def test_heavy_headers_stay_in_runtime(self):
        for header in ["torch/torch.h", "ATen/ATen.h", "c10/util/a.h", "mpi.h"]:
            text = f"#include <{header}>\n"
            self.assertEqual(self.found({"pipewright/runtime/x.cc": text}), [])
            for path in ["pipewright/plan/x.cc", "cli/x.cc", "tests/x.cc"]:
                self.assertEqual(len(self.found({path: text})), 1, path)

    def test_cuda_is_one_folder(self):
        for header in ["c10/cuda/CUDAStream.h", "cuda_runtime_api.h",
                       "pipewright/runtime/devices/cuda/x.h"]:
            text = f"#include <{header}>\n"
            for path in ["devices/cuda/y.cc", "devices/device_registry.cc"]:
                self.assertEqual(
                    self.found({"pipewright/runtime/" + path: text}), [])
            for path in ["devices/cpu_device.cc", "execution/worker.cc"]:
                self.assertEqual(
                    len(self.found({"pipewright/runtime/" + path: text})), 1)

    def test_names_are_unique(self):
        same = {"pipewright/plan/x.cc": "", "pipewright/model/x.cc": ""}
        self.assertEqual(len(self.found(same)), 1)
        pair = {"pipewright/plan/x.cc": "", "pipewright/plan/x.h": "// x",
                "cli/x.cc": ""}
        self.assertEqual(self.found(pair), [])

    def test_opening_and_leftovers(self):
        self.assertEqual(len(self.found({"cli/x.h": "#pragma once\n"})), 1)
        self.assertEqual(len(self.found({"cli/x.cc": "// TO" "DO: x\n"})), 1)

    def test_length_is_a_hint(self):
        with tempfile.TemporaryDirectory() as root:
            file = pathlib.Path(root, "cli/x.cc")
            file.parent.mkdir()
            for lines, hints in [(400, 0), (401, 1)]:
                file.write_text("\n" * lines)
                self.assertEqual(list(structure.breaches(root)), [])
                found = [h for h in structure.hints(root) if "cli/x.cc" in h]
                self.assertEqual(len(found), hints)

    def test_every_pair_of_inner_folders(self):
        for folder, table in structure.SEES_INSIDE.items():
            for here, sees in table.items():
                for there in table:
                    self.inner_pair(folder, here, there, sees)

    def inner_pair(self, folder, here, there, sees):
        first = "/".join(filter(None, ["pipewright", folder, here, "x.cc"]))
        second = "/".join(filter(None, ["pipewright", folder, there, "a.h"]))
        good = there in ("", here) or there in sees
        found = self.includes(first, second)
        self.assertEqual(len(found), 0 if good else 1, (first, second))

    def test_planners_do_not_know_each_other(self):
        self.assertEqual(
            self.includes("pipewright/planners/spp/x.cc", "pipewright/planners/exact/e.h"),
            ["pipewright/planners/spp/x.cc:2: includes pipewright/planners/exact/e.h; "
             "planners/spp must not know planners/exact"])

    def test_an_inner_folder_nobody_knows(self):
        found = self.includes("pipewright/plan/misc/x.cc", "pipewright/plan/plan.h")
        self.assertEqual(len(found), 1)

    def loops(self, **includes):
        files = {f"pipewright/base/{name.replace('_', '.')}":
                 "// x\n" + "".join(f'#include "pipewright/base/{h}.h"\n'
                                     for h in headers.split())
                 for name, headers in includes.items()}
        return [breach for breach in self.found(files) if "loop" in breach]

    def test_loops(self):
        self.assertEqual(self.loops(a_h="", b_h="a", c_h="a b"), [])
        self.assertEqual(len(self.loops(a_h="b", b_h="a")), 1)
        self.assertEqual(len(self.loops(a_h="b", b_h="c", c_h="d", d_h="b")), 1)
        self.assertEqual(len(self.loops(a_h="b", b_h="a", c_h="d", d_h="c")), 2)

    def test_header_and_source_are_one_module(self):
        self.assertEqual(self.loops(a_h="", a_cc="a", b_h="a"), [])
        self.assertEqual(len(self.loops(a_h="", a_cc="a b", b_h="a")), 1)

    def test_the_loop_is_named(self):
        self.assertEqual(self.loops(a_h="b", b_h="a"),
                         ["pipewright/base/a: is in an include loop of 2: "
                          "pipewright/base/a, pipewright/base/b"])

    def test_tests_mirror_the_tree(self):
        tree = {"pipewright/plan/memory/x.cc": "", "cli/train/y.cc": ""}
        for good in ["plan/memory", "plan", "cli", "cli/train", "structure"]:
            self.assertEqual(self.found({**tree, f"tests/{good}/a_test.cc": ""}), [])
        for bad in ["memory", "plan/moved", "train", "cli/memory"]:
            found = self.found({**tree, f"tests/{bad}/a_test.cc": ""})
            self.assertEqual(len(found), 1, bad)

    def test_a_test_lies_where_its_module_does(self):
        tree = {"pipewright/plan/memory/x.h": "// x\n"}
        self.assertEqual(self.found({**tree, "tests/plan/memory/x_test.cc": ""}), [])
        self.assertEqual(self.found({**tree, "tests/plan/x_test.cc": ""}),
                         ["tests/plan/x_test.cc:1: tests x.h, which is in "
                          "pipewright/plan/memory/"])

    def test_words(self):
        for text in ["kMostSteps", "most_layers", "x.told()", "one a line", "it is no number",
                     "in its stride", "held against", "a hungry stage"]:
            for path in ["cli/x.cc", "docs/a/x.md", "README.md"]:
                self.assertEqual(len(self.found({path: f"// {text}\n"})), 1, (path, text))
        for text in ["kMaxSteps", "max_layers", "most_urgent", "made_by(x)", "one at a time"]:
            self.assertEqual(self.found({"cli/x.cc": f"// {text}\n"}), [], text)

    def test_the_umbrella_sees_all_and_is_seen_by_none(self):
        self.assertEqual(self.includes("pipewright/pipewright.h", "pipewright/plan/p.h"), [])
        for path in ["pipewright/plan/x.cc", "pipewright/runtime/x.cc"]:
            self.assertEqual(len(self.includes(path, "pipewright/pipewright.h")), 1)

    def test_libraries_have_the_arrows(self):
        self.assertEqual(list(structure.library_breaches(
            "pipewright_folder(base)\npipewright_folder(model base)\n")), [])
        self.assertEqual(list(structure.library_breaches(
            "pipewright_folder(base)\npipewright_folder(model base)\n"
            "pipewright_folder(cluster model)\n")),
            ["links cluster with base model; it may see base"])

    def test_a_folder_nobody_knows(self):
        found = self.includes("pipewright/misc/x.cc", "pipewright/base/a.h")
        self.assertEqual(len(found), 1)


if __name__ == "__main__":
    unittest.main()
