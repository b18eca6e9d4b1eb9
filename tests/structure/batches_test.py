#!/usr/bin/env python3
"""tools/batches on small sources: who may share a unit, and who may not.

    batches_test.py ROOT
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()


def unnamed(text):
    return f"namespace {{\n{text}\n}}  // namespace\n"


class BatchesTest(unittest.TestCase):
    def batches(self, files, lines=1000):
        """The batches, as lists of file names without their ending."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        for name, text in files.items():
            (root / name).write_text(text)
        sources = [name for name in files if name.endswith(".cc")]
        self.line = [ROOT / "tools/batches", root, str(lines), root / "out" / "x_", *sources]
        written = subprocess.run(self.line, check=True, capture_output=True, text=True)
        self.written = [pathlib.Path(p) for p in written.stdout.strip().split(";")]
        return [[line.split('"')[1].removesuffix(".cc")
                 for line in path.read_text().splitlines()] for path in self.written]

    def together(self, first, second, **headers):
        files = {name + ".h": text for name, text in headers.items()}
        return len(self.batches({**files, "a.cc": first, "b.cc": second})) == 1

    def test_strangers_share_a_unit(self):
        self.assertTrue(self.together(unnamed("int one() { return 1; }"),
                                      unnamed("int two() { return 2; }")))

    def test_one_name_for_two_things(self):
        for text in ["int read(int x) {", "struct Part {", "constexpr int kMost = 1;",
                     "using Part = int;", "enum class Part {",
                     "template <class T>\nvoid read(T t) {"]:
            self.assertFalse(self.together(unnamed(text), unnamed(text)), text)

    def test_a_call_is_not_answered_by_another_file(self):
        own = unnamed("double share(double x) { return x; }")
        self.assertFalse(self.together(own, "int f() { return share(1); }\n"))
        self.assertFalse(self.together("int f() { return share(1); }\n", own))
        for harmless in ["t.share(1)", "t->share(1)", "T::share(1)", "share",
                         '"share(1)"', "t;  // share(1)"]:
            self.assertTrue(self.together(own, f"int f() {{ return {harmless}; }}\n"), harmless)

    def test_a_header_of_another_file_declares_the_name(self):
        own = unnamed("struct Part {\n};")
        self.assertFalse(self.together(own, '#include "h.h"\n', h="struct Part;\n"))
        self.assertFalse(self.together(own, '#include "g.h"\n', g='#include "h.h"\n',
                                       h="struct Part;\n"))

    def test_a_batch_has_its_size(self):
        files = {f"{name}.cc": "int x;\n" * 40 for name in "abcd"}
        self.assertEqual(self.batches(files, 100), [["a", "b"], ["c", "d"]])
        self.assertEqual(self.batches(files, 10), [["a"], ["b"], ["c"], ["d"]])

    def test_an_unchanged_batch_is_not_written_again(self):
        self.batches({"a.cc": "int x;\n"})
        before = self.written[0].stat().st_mtime_ns
        subprocess.run(self.line, check=True, capture_output=True)
        self.assertEqual(self.written[0].stat().st_mtime_ns, before)


if __name__ == "__main__":
    unittest.main(verbosity=1)
