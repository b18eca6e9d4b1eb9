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
import subprocess
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


def bi_partition_ratios(table, row, alone, where):
    """Of one side of a row: with replicas, or one device per stage."""
    is_split = row["separate" + alone].endswith("*")
    has_both = "-" not in (row["pipedream" + alone], row["separate" + alone])
    check((is_split and has_both) == (row["over pipedream" + alone] != "-"),
          f"{where}: a ratio without separate cuts, or none with them")
    check(not table.is_slower(row, alone), f"{where}: slower than pipedream")
    for slow, column in (("pipedream", "over pipedream"), ("equal", "gain")):
        if row[column + alone] == "-":
            continue
        printed = table.ratio(row[column + alone])
        again = (table.seconds(row[slow + alone])
                 / table.seconds(row["separate" + alone]))
        check(abs(printed / again - 1) < 0.02,
              f"{where}: {column} is {printed}, its steps give {again:.3g}")
        check(column == "gain" or
              printed <= 1.02 * table.ratio(row["at most" + alone]),
              f"{where}: faster than the bound")


def bi_partition():
    table = program("bi-partition")
    text = expected("bi-partition")
    rows = table.rows_of(text)
    check({row["net"] for row in rows} == set(table.NETS),
          "bi-partition: not every published net is in the table")
    for row in rows:
        where = f"bi-partition: {row['net']}, {row['cluster']}, {row['method']}"
        for alone in ("", " alone"):
            bi_partition_ratios(table, row, alone, where + alone)
    lines = table.summary(rows, table.rows_of(text, table.KEPT_COLUMNS))
    for line in lines:
        check(line in text.splitlines(), f"bi-partition: not printed: {line}")
    readme_figures("bi-partition", "\n".join(lines))


def readme_figures(folder, lines):
    """The README gives no ratio, share, time or size that the lines do not.
    (Settings, such as the rates of links and the size of a bucket, are no
    result.)"""
    readme = (HERE / folder / "README.md").read_text(encoding="utf-8")
    known = set(re.findall(r"\d+(?:\.\d+)?", lines))
    for figures in re.findall(
            r"([\d.]+)\s+to\s+([\d.]+)(?:x|\s+times)|([\d.]+)(?:x|\s+times)|"
            r"(\d+)\s+of\s+the\s+(\d+)|(\d+)\s+rows|([\d.]+)\s+%|"
            r"([\d.]+)\s+ms", readme):
        for number in filter(None, figures):
            check(number in known, f"{folder}/README.md: {number} is in no line "
                  "that its command prints")


def bapipe_rows(text):
    """Of each table with a pipeline: the steps of its planners in ms."""
    rows = []
    for table in text.split("\n\n"):
        steps = {name: float(step) for name, step in re.findall(
            r"^  ([\w-]+)  .* ([\d.]+) ms ", table, re.M)}
        if "bapipe" in steps:
            rows.append(steps)
    return rows


def bapipe_speeds(title, text, rows):
    """The lines under the title against the steps of these rows."""
    said = re.search(rf"{title} .*, (\d+) rows\n((?:  against .*\n)*)", text)
    check(said and int(said[1]) == len(rows),
          f"bapipe: {title}: {len(rows)} tables have a pipeline")
    for rival, *printed in re.findall(
            r"against ([\w-]+): median ([\d.]+)x, at most ([\d.]+)x .* "
            r"at least ([\d.]+)x", said[2] if said else ""):
        ratios = sorted(row[rival] / row["bapipe"] for row in rows
                        if rival in row)
        again = (ratios[(len(ratios) - 1) // 2], ratios[-1], ratios[0])
        check(all(abs(float(p) - r) < 0.011 for p, r in zip(printed, again)),
              f"bapipe: {title} against {rival}: the tables give {again}")


def bapipe():
    text = expected("bapipe")
    gpus, fpgas = text.split("FPGAs: estimated profiles")
    bapipe_speeds("BaPipe's speed-up on GPUs", text, bapipe_rows(gpus))
    bapipe_speeds("BaPipe's speed-up on FPGAs", text, bapipe_rows(fpgas))
    fallbacks = text.count("\n  bapipe = data-parallel")
    pipelines = len(bapipe_rows(text))
    said = re.search(r"^rows: (\d+); in (\d+) of them", text, re.M)
    check(said and [int(n) for n in said.groups()] ==
          [fallbacks + pipelines, fallbacks],
          "bapipe: the number of rows, or of those with data parallelism, is "
          "not that of the tables")
    readme_figures("bapipe", text)


def spp_gains(text):
    """Over the best rival, for each model and cluster: with the devices as the
    cluster lists them, and over the better of that and SPP's order. Where the
    two differ, the second is on a line of its own."""
    listed, either = [], []
    for line in text[:text.index("a rival, in the better")].splitlines():
        gain = re.search(r"(-?\d+) %\s+-?\d+ %$", line)
        if gain and "in SPP's order" not in line:
            listed.append(int(gain[1]))
            either.append(int(gain[1]))
        elif gain:
            either[-1] = int(gain[1])
    return listed, either


def spp():
    text = expected("spp")
    listed, either = spp_gains(text)
    check(all(e <= l for e, l in zip(either, listed)),
          "spp: a rival is slower with two orders than with one")
    for order, gains in (("devices as listed", listed),
                         ("in the better order for it", either)):
        said = re.search(rf"over the best rival, {order}: median (-?\d+) %, "
                         r"largest (-?\d+) %", text)
        check(said and gains and [int(n) for n in said.groups()] ==
              [sorted(gains)[(len(gains) - 1) // 2], max(gains)],
              f"spp: {order}: median and largest gain are not those of its "
              "rows")
    slower = re.search(r"is faster than SPP in (\d+) of (\d+) rows", text)
    # A gain of -0.3 % is printed as 0.
    check(slower and int(slower[2]) == len(either) and
          0 <= int(slower[1]) - sum(gain < 0 for gain in either) <=
          sum(gain == 0 for gain in either),
          "spp: rows with a faster rival are not those of the table")
    readme_figures("spp", text)


def pipemare():
    """The ratios below the table are those of its rows."""
    text = expected("pipemare")
    for what, largest in re.findall(r"^speed over sync \(gpipe\), (.*): median "
                                    r".*, largest ([\d.]+)x", text, re.M):
        speeds = [float(speed) for net, speed in re.findall(
            r"^(\S.*?) +\d+ +\d+  pipemare  .* ([\d.]+)x +[\d.]+ [GM]B", text,
            re.M) if what == ("equal stages" if net == "equal" else
                              "measured stages" if net.endswith("(m)") else
                              "stages as they are")]
        check(speeds and max(speeds) == float(largest),
              f"pipemare: {what}: the largest speed of the rows is not {largest}")
    readme_figures("pipemare", text)


def dapple():
    text = expected("dapple")
    ratios = []
    for line in text.splitlines():
        steps = re.findall(r"([\d.]+) \(", line)
        ratio = re.search(r"([\d.]+)x$", line)
        if not ratio:
            continue
        ratios.append(float(ratio[1]))
        check(abs(float(steps[-2]) / float(steps[-1]) - ratios[-1]) < 0.01,
              f"dapple: {line}: the steps give another ratio")
    said = re.search(r"median ([\d.]+)x, at least ([\d.]+)x, at most "
                     r"([\d.]+)x; slower in (\d+) of (\d+) rows", text)
    check(said and ratios and [float(n) for n in said.groups()] ==
          [sorted(ratios)[(len(ratios) - 1) // 2], min(ratios), max(ratios),
           sum(ratio < 1 for ratio in ratios), len(ratios)],
          "dapple: median, extremes or count are not those of its rows")


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


def convergence():
    """The README's tables have the figures of the stored ones, rounded."""
    folder = HERE / "convergence"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    both = readme[readme.index("## Results"):readme.index("What was found:")]
    for name, table in zip(("tables.txt", "tables-own-rates.txt"),
                           both.split("### T2 alone, and T3")):
        tables = (folder / name).read_text(encoding="utf-8")
        tasks = dict(re.findall(r"^(\S+): (\d+ layers.*?)^trained", tables,
                                re.M | re.S))
        rows = re.findall(r"^\| (\S+) \| ([\d.]+(?: %)? \|.*)$", table, re.M)
        check({task for task, _ in rows} == set(tasks),
              f"convergence: the README's table has other tasks than {name}")
        for task, row in rows:
            known = re.findall(r"[-+]?\d+(?:\.\d+)?", tasks.get(task, ""))
            known += [f"{float(number):+.2f}" for number in known]
            figures = re.sub(r"\(\d+ %\)|\d of \d", "", row)
            for number in re.findall(r"[-+]?\d+(?:\.\d+)?", figures):
                check(number in known, f"convergence: {task}: {number} in the "
                      f"README is not in {name}")

    said = readme[readme.index("- Where `text-19` falls behind"):]
    losses = (folder / "text-19-losses.txt").read_text(encoding="utf-8")
    for number in re.findall(r"\d\.\d+", said[:said.index("The first beta")]):
        check(number in losses.split(), f"convergence: {number} in the README is "
              "not in text-19-losses.txt")


def papers():
    """The documents give no figure of the four papers that their pages do not
    print."""
    printed = subprocess.run([sys.executable, HERE / "papers" / "run"],
                             capture_output=True, text=True, check=False)
    check(printed.returncode == 0, f"papers: {printed.stderr}")
    known = set(re.findall(r"\d+(?:\.\d+)?", printed.stdout))
    document = (HERE.parent / "docs" / "results.md").read_text(encoding="utf-8")
    section = document[document.index("## The four papers"):]
    rows = [line for line in section[:section.index("\n## ")].splitlines()
            if line.startswith("| ") and "DAPPLE" not in line
            and "bi-partition-run" not in line]
    check(len(rows) >= 7, "papers: docs/results.md has no table of the papers")
    for row in rows:
        claim, here = row.split("|")[2:4]
        for number in re.findall(r"\d+(?:\.\d+)?", claim + here):
            check(number in known,
                  f"docs/results.md: {number} is on no page of a paper: {row}")
    trained = document[document.index("At depth, with every arm's rate"):]
    for number in re.findall(r"\d+\.\d+", trained[:trained.index("\n\n")]):
        check(number in known,
              f"docs/results.md: {number} is on no page of a paper")


def main():
    for claims in (bi_partition, bapipe, spp, pipemare, dapple, network,
                   convergence, papers):
        claims()
    print("\n".join(PROBLEMS) or "every claim follows from its rows")
    return 1 if PROBLEMS else 0


if __name__ == "__main__":
    sys.exit(main())
