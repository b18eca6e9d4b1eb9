#!/usr/bin/env python3
"""Whether a folder's `run` still prints its expected.txt.

    experiments/check.py FOLDER [ARGUMENT...]

Runs FOLDER/run with the arguments. Where they name a part of the experiment
(--only ...), every line printed must stand in expected.txt, in its order;
otherwise the two must be equal. A first line "skipped: why" is passed on.
"""

import difflib
import pathlib
import subprocess
import sys


def is_part(printed, expected):
    rest = iter(expected)
    return all(any(line == known for known in rest) for line in printed)


def main(arguments):
    folder = pathlib.Path(arguments[1])
    done = subprocess.run([str(folder / "run"), *arguments[2:]],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="\n")
        return 1
    printed = done.stdout.splitlines()
    if printed and printed[0].startswith("skipped: "):
        print(printed[0])
        return 0
    expected = (folder / "expected.txt").read_text(encoding="utf-8").splitlines()
    partly = "--only" in arguments
    if is_part(printed, expected) if partly else printed == expected:
        print(f"{len(printed)} lines as expected")
        return 0 if printed else 1
    print("\n".join(difflib.unified_diff(expected, printed, "expected.txt",
                                         "printed", lineterm="")))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
