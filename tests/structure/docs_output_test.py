#!/usr/bin/env python3
"""Tests tools/docs-output on small repositories with a program of their own.

    docs_output_test.py ROOT
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(sys.argv.pop(1)) / "tools/docs-output" if len(sys.argv) > 1 else None
PROGRAM = """#!/bin/bash
case $1 in
  same) echo "plan of 4 stages, planned in $RANDOM ms" ;;
  measured) echo "step  $RANDOM ms"; echo "$2" ;;
  host) echo "cores: $RANDOM" ;;
  fails) exit 3 ;;
  *) echo "$@" ;;
esac
"""


def block(mark, command, printed):
    return f"<!-- {mark}: {command} -->\n```\n$ {command}\n{printed}\n```\n"


class DocsOutput(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("tools", "build", "docs", "examples", "experiments", "tests/structure"):
            (self.root / name).mkdir(parents=True)
        shutil.copy(TOOL, self.root / "tools/docs-output")
        program = self.root / "build/pipewright"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        for name in ("DESIGN.md", "CONTRIBUTING.md"):
            (self.root / name).write_text("")
        self.not_run("")

    def not_run(self, text):
        (self.root / "tests/structure/docs_not_run.txt").write_text(text)

    def run_tool(self, page, *arguments, environment=None):
        (self.root / "README.md").write_text(page)
        done = subprocess.run([self.root / "tools/docs-output", *arguments],
                              capture_output=True, text=True, env=environment)
        return done.returncode, done.stdout + done.stderr

    def check(self, page, environment=None):
        return self.run_tool(page, "--check", "--measured", environment=environment)

    def test_what_is_printed_again_passes(self):
        page = (block("output", "build/pipewright same", "plan of 4 stages, planned in 1 ms") +
                block("output (measured)", "build/pipewright measured ok", "step 2.5 s\nok") +
                block("output (host)", "build/pipewright host", "cores: 2") +
                block("output (fails)", "build/pipewright fails", "") +
                "`build/pipewright a b`, the form `build/pipewright plan FILE`, `make`\n")
        self.assertEqual(self.check(page), (0, ""))

    def test_other_words_fail(self):
        page = block("output (measured)", "build/pipewright measured ok", "step 2.5 s\nwell")
        self.assertEqual(self.check(page)[0], 1)
        page = block("output", "build/pipewright same", "plan of 5 stages, planned in 1 ms")
        self.assertEqual(self.check(page)[0], 1)
        page = block("output (host)", "build/pipewright host", "hosts: 2")
        self.assertEqual(self.check(page)[0], 1)

    def test_a_command_that_fails_is_a_fault_everywhere(self):
        for page in ("`build/pipewright fails` does it\n",
                     "<!-- run -->\n```\nbuild/pipewright fails\necho\n```\n",
                     block("output", "build/pipewright fails", "")):
            status, printed = self.check(page)
            self.assertEqual(status, 1, page)
            self.assertIn("exit status", printed)

    def test_python_runs_or_the_rest_of_the_page_is_skipped_with_the_reason(self):
        fake = self.root / "python"
        page = "<!-- run -->\n```python\nx = 1\n```\n`build/pipewright fails`\n"
        for status, printed, outcome in ((0, "exit status 3", 1), (1, "has no torch", 0)):
            fake.write_text(f'#!/bin/bash\n[ "$2" = "import torch, safetensors" ] && exit {status}\nexit 0\n')
            fake.chmod(0o755)
            found, text = self.check(page, dict(os.environ, PIPEWRIGHT_PYTHON=str(fake)))
            self.assertEqual(found, outcome)
            self.assertIn(printed, text)

    def test_a_python_block_that_fails_is_a_fault(self):
        fake = self.root / "python"
        fake.write_text('#!/bin/bash\n[ "$2" = "import torch, safetensors" ]\n')
        fake.chmod(0o755)
        page = "<!-- run -->\n```python\nx = 1\n```\n"
        found, text = self.check(page, dict(os.environ, PIPEWRIGHT_PYTHON=str(fake)))
        self.assertEqual(found, 1)
        self.assertIn("exit status 1", text)

    def test_commands_run_in_order_in_one_folder(self):
        page = ("<!-- run -->\n```\necho one > file\n```\n`build/pipewright $(cat file)`\n" +
                block("output", "cat file; rm file", "one") +
                block("output", "ls file || echo gone", "ls: cannot access 'file': "
                      "No such file or directory\ngone"))
        self.assertEqual(self.check(page), (0, ""))
        self.assertFalse((self.root / "file").exists())

    def test_a_command_is_run_or_listed(self):
        page = "```\nbuild/pipewright far away\n```\n"
        status, printed = self.run_tool(page, "--list")
        self.assertEqual(status, 1)
        self.assertIn("NEITHER RUN NOR LISTED: build/pipewright far away", printed)
        self.not_run("[needs a GPU]\nbuild/pipewright far .*\n")
        status, printed = self.run_tool(page, "--list")
        self.assertEqual(status, 0)
        self.assertIn("needs a GPU: build/pipewright far away", printed)

    def test_what_is_listed_is_not_run_and_exists(self):
        self.not_run("[it fails]\nbuild/pipewright fails\n")
        self.assertEqual(self.check("`build/pipewright fails`\n"), (0, ""))
        status, printed = self.run_tool("nothing\n", "--list")
        self.assertEqual(status, 1)
        self.assertIn("build/pipewright fails matches no command", printed)

    def test_blocks_are_written_anew_and_fit_a_screen(self):
        command = "build/pipewright echo " + " ".join(f"--option-{i} {i}" for i in range(10))
        page = block("output", command, "")
        self.run_tool(page)
        text = (self.root / "README.md").read_text().split("-->\n")[1]
        self.assertIn(" \\\n    --option", text)
        self.assertIn("echo --option-0 0 --option-1 1", text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()[:3]), 100)
        self.assertEqual(self.check((self.root / "README.md").read_text()), (0, ""))


unittest.main()
