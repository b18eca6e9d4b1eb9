#!/usr/bin/env python3
"""Compares the documentation with the repository and the program.

    docs_test.py ROOT [BINARY]

prints one line per fault and exits with 1 if there is any. The rules:
- a path of the repository that a page names exists,
- a relative link leads somewhere, and so does its anchor,
- every command of `pipewright --help` has a reference page that shows its
  --help, and there is no page of a command that does not exist,
- the pages of the tour and the glossary name types and functions that exist,
- the noun of every type in a header (the last word of its name) is in the glossary,
- every command on a page is run by tools/docs-output, or listed with the reason
  why not in docs_not_run.txt,
- what a block marked cheap shows is what its command prints (tools/docs-output).
Without BINARY, or where it does not exist, the rules about the program are
skipped. Before all of that it checks itself on pages with known faults.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP_PAGES = ["README.md", "DESIGN.md", "CONTRIBUTING.md"]
FOLDERS = ("pipewright/", "cli/", "tests/", "docs/", "tools/", "examples/", "experiments/",
           "fuzz/", "benchmarks/", ".ci/")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^(```|~~~).*?^\1[ ]*$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
# "name.h" or "folder/name.h": the end of some path of the repository.
FILE_NAME = re.compile(r"[A-Za-z][\w/-]*\.(?:h|cc|py)")
TYPE = re.compile(r"^(?:class|struct|enum class) ([A-Z]\w+)(?! *;)[^;\n]*$", re.MULTILINE)
# In the tour and the glossary: `TypeName`, `function()`.
SYMBOL = re.compile(r"(?:[a-z]\w*::)*([A-Z]\w*[a-z]\w*|[a-z]\w*(?=\(\)))(?:\(\))?")


def pages(root):
    found = [root / name for name in TOP_PAGES if (root / name).exists()]
    for folder in ("docs", "examples", "experiments"):
        found += sorted((root / folder).rglob("*.md"))
    return found


def prose(text):
    """A page without its blocks of code and its comments."""
    return COMMENT.sub("", FENCE.sub("", text))


def anchor(heading):
    """As GitHub makes them."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page):
    return {anchor(heading) for heading in HEADING.findall(FENCE.sub("", page.read_text()))}


def exists(root, path):
    path = path.rstrip("/.,:;")
    if any(sign in path for sign in "*["):
        return any(root.glob(path))
    return (root / path).exists()


def is_pattern(word):
    """NAME, FOLDER and <x> stand for something else."""
    return bool(re.search(r"[A-Z]{3,}|[<>{}$|…]|\.\.\.", word.removesuffix("README.md")))


def path_faults(root, page):
    files = [str(path) for folder in FOLDERS for path in (root / folder).rglob("*.*")]
    for span in CODE.findall(prose(page.read_text())):
        for word in re.split(r"[\s,=]+", span):
            word = word.strip("'\"()")
            if is_pattern(word):
                continue
            if word.startswith(FOLDERS) and not exists(root, word):
                yield f"names {word}, which does not exist"
            elif FILE_NAME.fullmatch(word) and not any(f.endswith("/" + word) for f in files):
                yield f"names {word}, and no file is called that"


def link_faults(root, page):
    for target in LINK.findall(prose(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists():
            yield f"links to {target}, which does not exist"
        elif fragment and there.suffix == ".md" and fragment not in anchors(there):
            yield f"links to {target}, and that page has no such heading"


def sources(root):
    return "\n".join(path.read_text(errors="replace") for folder in ("pipewright", "cli")
                     for path in sorted((root / folder).rglob("*"))
                     if path.suffix in (".h", ".cc"))


def symbol_faults(page, text):
    for span in CODE.findall(prose(page.read_text())):
        for symbol in SYMBOL.findall(span) if SYMBOL.fullmatch(span) else []:
            if not re.search(rf"\b{symbol}\b", text):
                yield f"names {span}, which is not in the sources"


def glossary_words(root):
    """The first column of the glossary's tables."""
    text = (root / "docs/glossary.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return {word for row in rows for word in re.findall(r"[a-z]+", row.lower())}


def has_word(words, noun):
    singular = [noun, noun.removesuffix("s"), noun.removesuffix("es")]
    if noun.endswith("ies"):
        singular.append(noun[:-3] + "y")
    return any(form in words or form + "s" in words for form in singular)


def noun_faults(root):
    words = glossary_words(root)
    for folder in ("pipewright", "cli"):
        for header in sorted((root / folder).rglob("*.h")):
            for name in TYPE.findall(header.read_text()):
                noun = re.findall(r"[A-Z][a-z0-9]*", name)[-1].lower()
                # "Executed", "Planned": what came of a verb.
                if not noun.endswith("ed") and not has_word(words, noun):
                    yield (f"{header.relative_to(root)}: the type {name} is a \"{noun}\", and "
                           "docs/glossary.md has no such word")


def page_faults(root):
    text = sources(root)
    for page in pages(root):
        faults = list(path_faults(root, page)) + list(link_faults(root, page))
        if page.name in ("tour.md", "glossary.md"):
            faults += symbol_faults(page, text)
        for fault in faults:
            yield f"{page.relative_to(root)}: {fault}"


def commands_of(binary):
    text = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    listed = re.split(r"^\w*commands:\n", text, flags=re.MULTILINE | re.IGNORECASE)[-1]
    return re.findall(r"^  ([a-z][\w-]*)\s", listed, re.MULTILINE)


def command_faults(root, binary):
    folder = root / "docs/reference/commands"
    commands = commands_of(binary)
    if not commands:
        yield f"{binary} --help lists no commands"
    for name in commands:
        page = folder / f"{name}.md"
        if not page.exists():
            yield f"docs/reference/commands/{name}.md does not exist, and the command does"
        elif f"<!-- output (cheap): build/pipewright {name} --help -->" not in page.read_text():
            yield f"docs/reference/commands/{name}.md does not show the command's --help"
    for page in folder.glob("*.md"):
        if page.stem not in commands and page.name != "README.md":
            yield f"docs/reference/commands/{page.name}: there is no such command"


def list_faults(root):
    done = subprocess.run([root / "tools/docs-output", "--list"], capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines()
                 if "NEITHER" in line or "matches no command" in line]
        yield from lines or [done.stderr]


def output_faults(root, binary):
    done = subprocess.run([root / "tools/docs-output", "--check", "--cheap", "--binary", binary],
                          capture_output=True, text=True)
    if done.returncode != 0:
        yield done.stdout + done.stderr


def check_itself():
    """Each of these faults must be found, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in FOLDERS:
            (root / name).mkdir()
        (root / "pipewright/plan.h").write_text("struct Plan {};\nvoid lower();\n")
        (root / "docs/other.md").write_text("# One `thing`, two\n")
        (root / "docs/tour.md").write_text(
            "`Plan` `lower()` `pipewright/plan.h` `plan.h` [a](other.md#one-thing-two) [b](#here)\n"
            "# Here\n```\n`tests/in_a_block.cc` [c](nowhere.md)\n```\n"
            "`tests/NAME_test.cc` `pipewright/*.h` `Gone` `gone()` `cli/gone.cc` `x/gone.h`\n"
            "[d](gone.md) [e](other.md#gone) `fuzz/*.gone`\n")
        (root / "docs/glossary.md").write_text("| plans | meaning |\n")
        (root / "cli/gone.h").write_text("class Declared;\nstruct BigGone {\n")
        assert [fault.split(":")[0] for fault in noun_faults(root)] == ["cli/gone.h"]
        (root / "cli/gone.h").unlink()
        found = sorted(page_faults(root))
        expected = ["names Gone,", "names cli/gone.cc,", "names fuzz/*.gone,", "names gone(),",
                    "names x/gone.h,", "links to gone.md,", "links to other.md#gone,"]
        assert len(found) == len(expected), found
        for part in expected:
            assert any(f"docs/tour.md: {part}" in fault for fault in found), (part, found)


def main():
    check_itself()
    root = pathlib.Path(sys.argv[1]).resolve()
    binary = pathlib.Path(sys.argv[2]).absolute() if len(sys.argv) > 2 else None
    faults = list(page_faults(root)) + list(noun_faults(root)) + list(list_faults(root))
    if binary and os.access(binary, os.X_OK):
        faults += command_faults(root, binary)
        faults += output_faults(root, binary)
    else:
        print(f"commands and their output are not compared: there is no {binary or 'binary'}")
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


main()
