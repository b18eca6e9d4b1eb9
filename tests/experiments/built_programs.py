#!/usr/bin/env python3
"""Every experiment runs the program in the folder that BUILD names.

    built_programs.py

There it finds a program that only writes down that it was called, and fails. An
experiment that lacks something here (data, namespaces) must say so.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

EXPERIMENTS = pathlib.Path(__file__).resolve().parents[2] / "experiments"
NAMES = ("bapipe", "bi-partition-run", "dapple", "links", "network",
         "planned-run", "sailor", "spp")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        called = folder / "called"
        program = folder / "pipewright"
        program.write_text(f"#!/bin/sh\necho \"$1\" >> '{called}'\nexit 1\n")
        program.chmod(0o755)
        for experiment in NAMES:
            done = subprocess.run(
                [EXPERIMENTS / experiment / "run"], capture_output=True,
                text=True, check=False,
                env={**os.environ, "BUILD": name, "QUICK": "1"})
            if done.stdout.startswith("skipped: "):
                print(f"{experiment}: {done.stdout.strip()}")
                continue
            if not called.exists():
                sys.exit(f"{experiment} ran another program\n{done.stdout}"
                         f"{done.stderr}")
            called.unlink()
            print(f"{experiment}: the program in BUILD")


main()
