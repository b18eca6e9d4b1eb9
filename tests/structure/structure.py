#!/usr/bin/env python3
"""Holds the source tree against the rules that keep it readable.

    structure.py ROOT

prints one line per breach and exits with 1 if there is any. The rules: who may
include whom (SEES), LibTorch and MPI only in runtime/, one name per file, at
most 400 lines a file, and a header opens by saying what it is.
"""

import pathlib
import re
import sys

# What each folder of pipewright/ may include, beside itself. An arrow that is
# not here is a breach: simulate and runtime do not know each other, planners
# are handed an estimator (estimate) instead of knowing simulate, and nobody knows
# cli.
CORE = {"base", "model", "cluster", "profile"}
SEES = {
    "base": set(),
    "model": {"base"},
    "cluster": {"base"},
    "profile": CORE - {"profile"},
    "plan": CORE,
    "schedules": CORE | {"plan"},
    "planners": CORE | {"plan", "schedules"},
    "timeline": CORE | {"plan"},
    "simulate": CORE | {"plan", "timeline"},
    "estimate": CORE | {"plan", "schedules", "planners", "timeline", "simulate"},
    "runtime": CORE | {"plan", "timeline"},
}
FOLDERS = ["pipewright", "cli", "tests", "benchmarks", "fuzz"]
HEAVY = re.compile(r"(torch|ATen|c10|caffe2)/|mpi\.h$")
HEAVY_ALLOWED = ("pipewright/runtime/", "tests/runtime/", "tests/cli/train/", "benchmarks/runtime")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
MOST_LINES = 400


def part(path):
    """pipewright/plan/x.h -> plan; cli/x.h -> cli; tests/plan/x.cc -> tests."""
    pieces = path.split("/")
    return pieces[1] if pieces[0] == "pipewright" else pieces[0]


def include_breach(path, included):
    if HEAVY.match(included) and not path.startswith(HEAVY_ALLOWED):
        return f"includes {included}; LibTorch and MPI belong to runtime/"
    if not path.startswith("pipewright/"):
        return None  # cli, tests, benchmarks and fuzz see all
    if included.startswith(("cli/", "tests/", "benchmarks/", "fuzz/")):
        return f"includes {included}; nothing in pipewright/ sees it"
    if not included.startswith("pipewright/"):
        return None
    here, there = part(path), part(included)
    if here not in SEES:
        return f"{here}/ is not in the table of folders"
    if there != here and there not in SEES[here]:
        return f"includes {included}; {here} must not know {there}"
    return None


def breaches_of_file(path, lines):
    if len(lines) > MOST_LINES:
        yield 1, f"has {len(lines)} lines; the limit is {MOST_LINES}"
    if path.endswith(".h") and not (lines and lines[0].startswith("//")):
        yield 1, "does not open with a comment on what it is"
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        breach = match and include_breach(path, match.group(1))
        if breach:
            yield number, breach
        if UNFINISHED.search(line):
            yield number, "is marked as unfinished"


def breaches(root):
    """One "file:line: why" for every breach under root."""
    root = pathlib.Path(root)
    seen = {}
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in (".h", ".cc") or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            lines = file.read_text(encoding="utf-8").splitlines()
            for number, why in breaches_of_file(path, lines):
                yield f"{path}:{number}: {why}"
            # A command's file is named for the command, so cli/ is apart.
            first = seen.setdefault((folder, file.name), path)
            if first != path:
                yield f"{path}:1: has the name of {first}"


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = list(breaches(arguments[1]))
    print("\n".join(found) if found else "the structure is as designed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
