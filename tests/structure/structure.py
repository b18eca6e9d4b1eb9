#!/usr/bin/env python3
"""Compares the source tree with the rules that keep it readable.

    structure.py ROOT

prints one line per breach and exits with 1 if there is any. The rules: which
folder may include which (SEES, SEES_INSIDE), no include loops, LibTorch and MPI
only in runtime/, one name per file, tests/ mirrors the tree, a header opens by
saying what it is, and no word of WORDS in program or pages. A file of more than 400 lines is a hint, not a breach.
"""

import pathlib
import re
import sys

# What each folder of pipewright/ may include, beside itself. An arrow that is
# not here is a breach: simulate and runtime do not know each other, planners
# are given an estimator (estimate) instead of knowing simulate, and nobody knows
# cli. pipewright/CMakeLists.txt has the same arrows.
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
    "report": CORE | {"plan", "schedules", "planners", "timeline", "simulate", "estimate"},
    "runtime": CORE | {"plan", "timeline"},
}
# The same for the folders inside one. All see the files at its root ("" here),
# which see only what their own line says.
SEES_INSIDE = {
    "model": {
        "": {"exported", "kinds", "zoo"},
        "exported": set(),
        "kinds": set(),
        "zoo": set(),
    },
    "profile": {
        "": set(),
        "formats": set(),
    },
    "plan": {
        "": {"schedule", "program", "lowering"},
        "schedule": set(),
        "program": {"schedule"},
        "lowering": {"schedule", "program", "memory"},
        "validation": {"program"},
        "memory": {"program", "lowering", "validation"},
    },
    # A planner does not know another one.
    "planners": {
        "": {"bounds"},
        "bounds": set(),
        "baselines": {"bounds"},
        "pipedream": {"bounds"},
        "dapple": {"bounds"},
        "piper": {"bounds"},
        "exact": {"bounds"},
        "bapipe": {"bounds"},
        "spp": {"bounds"},
        "bi_partition": {"bounds"},
        "pipemare": {"bounds"},
        "auto": {"bounds"},
    },
    "runtime": {
        "": set(),
        "devices": set(),
        "safetensors": set(),
        "layers": {"safetensors"},
        "optimizers": set(),
        "weights": {"devices", "execution", "training"},
        "channels": {"execution", "ranks"},
        "ranks": {"channels", "checkpoint", "execution"},
        "execution": {"channels", "devices", "layers", "ranks", "training", "weights"},
        "checkpoint": {"execution", "layers", "safetensors"},
        "data": {"layers", "safetensors", "training"},
        "training": {"checkpoint", "data", "devices", "execution", "layers", "optimizers",
                     "profiling", "ranks"},
        "profiling": {"channels", "data", "devices", "execution", "ranks"},
        "reference": {"channels", "execution", "training", "weights"},
    },
}
FOLDERS = ["pipewright", "cli", "tests", "benchmarks", "fuzz"]
# The whole library in one header, for programs that use it; not for us.
UMBRELLA = "pipewright/pipewright.h"
HEAVY = re.compile(r"(torch|ATen|c10|caffe2)/|mpi\.h$")
# CUDA is one folder, which only the registry of devices includes.
CUDA = re.compile(r"(c10|ATen)/cuda/|cuda[a-z_]*\.h$|nccl\.h$|"
                  r"pipewright/runtime/devices/cuda/")
CUDA_ALLOWED = ("pipewright/runtime/devices/cuda/",
                "pipewright/runtime/devices/device_registry.cc",
                "pipewright/runtime/devices/no_cuda.cc", "tests/runtime/devices/cuda/")
HEAVY_ALLOWED = ("pipewright/runtime/", "tests/runtime/", "tests/cli/train/", "benchmarks/runtime")
LIBRARY = re.compile(r"^pipewright_folder\(([a-z ]+)\)$", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
# Words that made readers stop, and what to write instead.
WORDS = [(re.compile(pattern), instead) for pattern, instead in [
    (r"\bkMost[A-Z]\w*", "kMax..."),
    (r"\bmost_(?=(norm|steps|layers|samples|workers)\b)\w+", "max_..."),
    (r"\b(told|fresh|scored)\(\)", "explain, untried, score"),
    (r"\bin its stride\b", "in steady state"),
    (r"\bheld against\b", "compared with"),
    (r"\bstands twice\b", "duplicate"),
    (r"(?<!there )\b(is|are|be) no number\b", "NaN, or not a number"),
    (r"\bone a (device|worker|stage|file|line|step)\b", "one per ..."),
    (r"\b(hungry|hopeless)\b", "uses the most memory, cannot fit"),
    (r"\bpatience\b|\bdismiss\w*", "backoff, shutdown"),
]]
LONG_FILE = 400


def place(path):
    """Folder and sub-folder of a file in pipewright/: ("plan", "memory")."""
    pieces = path.split("/")[1:-1]
    return pieces[0], pieces[1] if len(pieces) > 1 else ""


def include_breach(path, included):
    if HEAVY.match(included) and not path.startswith(HEAVY_ALLOWED):
        return f"includes {included}; LibTorch and MPI belong to runtime/"
    if CUDA.match(included) and not path.startswith(CUDA_ALLOWED):
        return f"includes {included}; CUDA belongs to runtime/devices/cuda/"
    if not path.startswith("pipewright/") or path == UMBRELLA:
        return None  # cli, tests, benchmarks and fuzz see all
    if included.startswith(("cli/", "tests/", "benchmarks/", "fuzz/")):
        return f"includes {included}; nothing in pipewright/ sees it"
    if included == UMBRELLA:
        return f"includes {included}; it is for other programs"
    if not included.startswith("pipewright/"):
        return None
    (here, inside), (there, inside_there) = place(path), place(included)
    if here not in SEES:
        return f"{here}/ is not in the table of folders"
    if there != here:
        allowed = there in SEES[here]
        return None if allowed else f"includes {included}; {here} must not know {there}"
    return inner_breach(here, inside, inside_there, included)


def inner_breach(folder, here, there, included):
    """Of a file in pipewright/FOLDER/HERE that includes one of FOLDER/THERE."""
    if here == there or folder not in SEES_INSIDE:
        return None
    table = SEES_INSIDE[folder]
    if here not in table:
        return f"{folder}/{here}/ is not in the table of folders"
    if there == "" or there in table[here]:
        return None
    where = f"{folder}/{here}" if here else f"the root of {folder}"
    return f"includes {included}; {where} must not know {folder}/{there}"


def mirror_breach(root, path, files):
    """Of a test whose folder mirrors none of the tree, or not that of the
    module it is named for."""
    test = pathlib.PurePosixPath(path)
    folder = test.parent.relative_to("tests")
    if folder.parts[:1] == ("structure",):
        return None
    source = folder if folder.parts[:1] == ("cli",) else "pipewright" / folder
    if not (root / source).is_dir():
        return f"tests the folder {source}/, which is not there"
    header = test.stem.removesuffix("_test") + ".h"
    homes = {pathlib.PurePosixPath(file).parent for file in files
             if file.startswith(source.parts[0] + "/") and file.endswith("/" + header)}
    if homes and source not in homes:
        return f"tests {header}, which is in {homes.pop()}/"
    return None


def breaches_of_file(path, lines):
    if path.endswith(".h") and not (lines and lines[0].startswith("//")):
        yield 1, "does not open with a comment on what it is"
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        breach = match and include_breach(path, match.group(1))
        if breach:
            yield number, breach
        if UNFINISHED.search(line):
            yield number, "is marked as unfinished"
    if path.startswith(("pipewright/", "cli/")):
        yield from word_breaches(lines)


def word_breaches(lines):
    for number, line in enumerate(lines, 1):
        for pattern, instead in WORDS:
            if match := pattern.search(line):
                yield number, f"has the words \"{match.group()}\"; write {instead}"


def pages(root):
    """What people read: its path, and its lines."""
    found = list((root / "docs").rglob("*.md"))
    found += [root / name for name in ("README.md", "DESIGN.md", "CONTRIBUTING.md")]
    for file in sorted(filter(pathlib.Path.is_file, found)):
        yield file.relative_to(root).as_posix(), file.read_text(encoding="utf-8").splitlines()


def sources(root):
    """Every C++ file: its path, and its lines."""
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in (".h", ".cc") and file.is_file():
                path = file.relative_to(root).as_posix()
                yield path, file.read_text(encoding="utf-8").splitlines()


def module(path):
    """x.h and x.cc are one module."""
    return path.rsplit(".", 1)[0]


def include_graph(files):
    """The modules that each module includes."""
    modules = {module(path) for path in files}
    graph = {name: set() for name in modules}
    for path, lines in files.items():
        for match in filter(None, map(INCLUDE.match, lines)):
            other = module(match.group(1))
            if other in modules and other != module(path):
                graph[module(path)].add(other)
    return graph


def loops(graph):
    """Sets of modules that include each other, directly or not: the strongly
    connected components of two or more (Tarjan)."""
    order, lowest, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return sorted(found)


def breaches(root):
    """One "file:line: why" for every breach under root."""
    root = pathlib.Path(root)
    files = dict(sources(root))
    names = {}
    for path, lines in files.items():
        for number, why in breaches_of_file(path, lines):
            yield f"{path}:{number}: {why}"
        if path.startswith("tests/") and path.endswith("_test.cc"):
            if why := mirror_breach(root, path, files):
                yield f"{path}:1: {why}"
        # A command's file is named for the command, so cli/ is apart.
        folder, name = path.split("/")[0], path.split("/")[-1]
        first = names.setdefault((folder, name), path)
        if first != path:
            yield f"{path}:1: has the name of {first}"
    for path, lines in pages(root):
        for number, why in word_breaches(lines):
            yield f"{path}:{number}: {why}"
    cmake = root / "pipewright" / "CMakeLists.txt"
    if cmake.is_file():
        for why in library_breaches(cmake.read_text(encoding="utf-8")):
            yield f"pipewright/CMakeLists.txt:1: {why}"
    for loop in loops(include_graph(files)):
        yield f"{loop[0]}: is in an include loop of {len(loop)}: {', '.join(loop)}"


def library_breaches(text):
    """Where the libraries of pipewright/CMakeLists.txt use others than SEES."""
    sees = {}
    for name, *used in map(str.split, LIBRARY.findall(text)):
        sees[name] = set(used).union(*(sees.get(other, set()) for other in used))
    for name in sorted(sees.keys() & SEES.keys()):
        if sees[name] != SEES[name]:
            yield (f"links {name} with {' '.join(sorted(sees[name]))}; "
                   f"it may see {' '.join(sorted(SEES[name]))}")


def hints(root):
    for path, lines in sources(pathlib.Path(root)):
        if len(lines) > LONG_FILE:
            yield f"hint: {path} has {len(lines)} lines; does it hold two things?"


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    for hint in hints(arguments[1]):
        print(hint)
    found = list(breaches(arguments[1]))
    print("\n".join(found) if found else "the structure is as designed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
