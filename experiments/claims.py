#!/usr/bin/env python3
"""Whether what the tables claim follows from their own rows.

    experiments/claims.py

`expected.txt` keeps a table stable; this reads the rows in it again, and checks
the lines below the table and what the README says about them.
"""

import importlib.machinery
import importlib.util
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROBLEMS = []


def check(holds, text):
    if not holds:
        PROBLEMS.append(text)


def expected(folder):
    return (HERE / folder / "expected.txt").read_text(encoding="utf-8")


def program(folder):
    """The folder's `run`, as a module."""
    loader = importlib.machinery.SourceFileLoader(
        folder.replace("-", "_"), str(HERE / folder / "run"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def bi_partition():
    table = program("bi-partition")
    text = expected("bi-partition")
    rows = table.rows_of(text)
    check({row["net"] for row in rows} == set(table.NETS),
          "bi-partition: not every published net is in the table")
    for row in rows:
        where = f"bi-partition: {row['net']}, {row['cluster']}, {row['method']}"
        is_split = row["separate"].endswith("*")
        check(is_split == (row["over pipedream"] != "-"),
              f"{where}: a ratio without separate cuts, or none with them")
        check(not table.is_slower(row), f"{where}: slower than pipedream")
        pairs = [("pipedream", "separate", "over pipedream"),
                 ("equal", "separate", "gain"),
                 ("equal alone", "separate alone", "gain alone")]
        for slow, fast, ratio in pairs:
            if row[ratio] == "-":
                continue
            printed = float(row[ratio][:-1])
            again = table.seconds(row[slow]) / table.seconds(row[fast])
            check(abs(printed / again - 1) < 0.02,
                  f"{where}: {ratio} is {printed}, its steps give {again:.3g}")
    for line in table.summary(rows):
        check(line in text.splitlines(), f"bi-partition: not printed: {line}")


def bapipe():
    text = expected("bapipe")
    fallbacks = text.count("\n  bapipe = data-parallel")
    pipelines = len(re.findall(r"\n  bapipe  ", text))
    counts = [int(n) for n in re.findall(r"\), (\d+) rows", text)]
    check(len(counts) == 4 and counts[0] + counts[2] == pipelines,
          f"bapipe: {pipelines} rows with a pipeline, but ratios over {counts}")
    check(fallbacks > 0, "bapipe: no row is marked as data parallelism")


def spp():
    text = expected("spp")
    rows = text[:text.index("median over")]
    gains = [int(n) for n in re.findall(r"(-?\d+) %\s+-?\d+ %$", rows, re.M)]
    largest = re.search(r"largest over the best rival of a row: (-?\d+) %", text)
    check(largest and int(largest[1]) == max(gains, default=None),
          "spp: the largest gain is not that of its rows")
    middle = re.search(r"median over the best rival of a row: (-?\d+) %", text)
    check(middle and int(middle[1]) == sorted(gains)[(len(gains) - 1) // 2],
          "spp: the median gain is not that of its rows")


def network():
    """Printed steps are rounded to milliseconds, so errors and gains may differ
    in their last digit; orders may not."""
    table, text = program("network"), expected("network")
    tables = table.tables_of(text)
    check(len(tables) >= 4 and all(len(rows) == len(table.PLANNERS)
                                   for rows in tables),
          "network: a topology or a planner is missing")
    gains = re.findall(r"SPP is ([\d.]+) times .*\(predicted ([\d.]+)\)", text)
    check(len(gains) == len(tables), "network: a gain is missing")
    for rows, printed in zip(tables, gains):
        for row in rows:
            check(abs(table.error(row) - row[4]) < 0.5,
                  f"network: the error of {row} is {table.error(row):.1f} %")
        for column, value in zip((3, 2), printed):
            check(abs(table.gain(rows, column) - float(value)) < 0.02,
                  f"network: a gain of {value} is {table.gain(rows, column):.3f}")
    check(table.summary(tables)[1] in text.splitlines(),
          "network: other pairs are in the right order")
    middle, largest = map(float, re.search(
        r"error ([\d.]+) % \(median\), ([\d.]+) % \(largest\)", text).groups())
    errors = sorted(abs(row[4]) for rows in tables for row in rows)
    check(abs(errors[len(errors) // 2] - middle) < 0.5 and errors[-1] == largest,
          "network: median or largest error are not those of its rows")


def main():
    for claims in (bi_partition, bapipe, spp, network):
        claims()
    print("\n".join(PROBLEMS) or "every claim follows from its rows")
    return 1 if PROBLEMS else 0


if __name__ == "__main__":
    sys.exit(main())
