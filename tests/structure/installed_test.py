#!/usr/bin/env python3
"""What `cmake --install` leaves: a program that finds its runtime, completion
and man page, and a package with which examples/embed builds and runs.

    installed_test.py ROOT BUILD_FOLDER
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, BUILD = (pathlib.Path(text).resolve() for text in sys.argv[1:3])
del sys.argv[1:3]
HAS_RUNTIME = (BUILD / "pipewright-runtime").exists()


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.folder.name) / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_program_finds_its_runtime(self):
        text = run(self.prefix / "bin" / "pipewright", "env")
        self.assertEqual("libtorch: none" not in text, HAS_RUNTIME, text)
        text = run(self.prefix / "bin" / "pipewright", "--version")
        self.assertRegex(text, r"^pipewright \d+\.\d+\.\d+\n$")

    def test_neither_sources_nor_build_folder_are_needed(self):
        for file in self.prefix.rglob("*.cmake"):
            for folder in (BUILD, ROOT / "pipewright", ROOT / "cmake"):
                self.assertNotIn(str(folder), file.read_text(), file)

    def test_completion_and_man_page(self):
        share = self.prefix / "share"
        for path in ["man/man1/pipewright.1", "zsh/site-functions/_pipewright",
                     "bash-completion/completions/pipewright"]:
            self.assertIn("validate", (share / path).read_text())

    def test_embed(self):
        build = pathlib.Path(self.folder.name) / "embed"
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("Torch_DIR", "CMAKE_PREFIX_PATH")}
        run("cmake", "-S", ROOT / "examples" / "embed", "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}", env=environment)
        run("cmake", "--build", build)
        lines = run(build / "embed", cwd=build).splitlines(keepends=True)
        if HAS_RUNTIME:
            loss = re.fullmatch(r"trained: loss (\S+) to (\S+)\n", lines.pop())
            self.assertIsNotNone(loss)
            self.assertLess(float(loss[2]), float(loss[1]) / 2)
            self.assertTrue((build / "run" / "summary.json").is_file())
        expected = (ROOT / "examples" / "embed" / "expected.txt").read_text()
        self.assertEqual("".join(lines), expected)


if __name__ == "__main__":
    unittest.main()
