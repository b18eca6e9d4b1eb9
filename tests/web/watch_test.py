#!/usr/bin/env python3
"""Real runs, watched in a real browser from before their first step to their end.

    watch_test.py BINARY SCREENSHOTS

What the page shows at the end equals `report --json`, and so does /metrics; an
asynchronous run shows staleness and rate of each stage; a run that fails shows
why; runs are laid over each other. Prints "skipped: ..." where there is no
browser or no HTTP server.
"""

import json
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from browser import Browser, find_browser
from report_test import bytes_text, check_layout, number_text, percent_text, seconds_text, texts
from server import Server, has_server

TRAIN = ["train", "--model", "mlp:features=64,classes=10", "--data", "digits", "--held-out", "0.2",
         "--workers", "2", "--minibatch", "32"]


def training(binary, folder, name, *more):
    return subprocess.Popen([binary, *TRAIN, "--run", name, *more], cwd=folder, text=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def states(browser):
    return browser.script("return document.documentElement.dataset.runs").split()


def reported(binary, folder, name):
    return json.loads(subprocess.run([binary, "report", name, "--json"], cwd=folder, text=True,
                                     capture_output=True, check=True).stdout)["run"]


def gauges(text):
    """{name: {labels: value}} of Prometheus' format."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP \w+ .+|TYPE \w+ gauge)", line), line
            continue
        name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line).groups()
        found.setdefault(name, {})[labels] = float(value)
    return found


def check_console(browser):
    # The browser itself logs answers with an error's status: the run had not begun.
    messages = [message for message in browser.console() if "400 (Bad Request)" not in message]
    assert not messages, messages


def check_shown(browser, run):
    """Figures, sentences and tables are those of --json."""
    figure = lambda name: texts(browser, f"[data-figure={name}] .value")[0]
    assert figure("steps") == number_text(run["curves"]["steps"][-1])
    assert figure("measured") == seconds_text(run["step_seconds"])
    for said in run["summary"]:
        if said["about"] == "why":
            continue  # asked for by a button: check_explained()
        assert texts(browser, f"#run dd[data-about={said['about']}]") == [said["text"]], said
    for worker in run["workers"]:
        cells = texts(browser, f"#run-workers tr[data-worker='{worker['worker']}'] td")
        assert cells[2:] == [percent_text(worker["busy"]), bytes_text(worker["memory_bytes"])], cells


def check_metrics(server, folder, runs):
    status, text = server.get("/metrics")
    assert status == 200
    found = gauges(text)
    for name, run in runs.items():
        label = f'run="{name}"'
        assert found["pipewright_step"][label] == run["curves"]["steps"][-1]
        assert found["pipewright_loss"][label] == run["curves"]["loss"][-1]
        assert found["pipewright_running"][label] == (run["state"] == "running")
        for worker in run["workers"]:
            key = f'{label},worker="{worker["worker"]}"'
            assert found["pipewright_worker_busy"][key] == worker["busy"]
            assert found["pipewright_worker_memory_bytes"][key] == worker["memory_bytes"]
        for stage in run["stages"]:
            key = f'{label},stage="{stage["stage"]}"'
            assert found["pipewright_stage_staleness"][key] == stage["staleness"]


def check_explained(browser, run):
    """The button shows the plan: why it was chosen, and every panel."""
    browser.script("document.getElementById('explain').click()")
    browser.wait("document.querySelector('#watched-plan #cluster')")
    why = [said["text"] for said in run["summary"] if said["about"] == "why"]
    assert len(why) == 1 and texts(browser, "#watched-plan dd[data-about=why]") == why
    panels = browser.script("return [...document.querySelectorAll('#watched-plan .panel')].map((each) => each.id)")
    assert panels == ["summary", "timeline", "memory", "model", "cluster"], panels


def check_one(browser, binary, folder, pictures):
    """From an empty folder to the end; steps are seen on the way."""
    (folder / "sync").mkdir()
    with Server(binary, "sync", folder=folder) as server:
        browser.open(server.address)
        browser.wait("document.querySelector('#run [role=status]')")
        assert states(browser) == ["unknown"]
        process = training(binary, folder, "sync", "--steps", "1500", "--eval-every", "300")
        browser.wait("document.documentElement.dataset.runs === 'running'")
        seen = int(texts(browser, "[data-figure=steps] .value")[0])
        browser.wait(f"Number(document.querySelector('[data-figure=steps] .value').textContent) > {seen}")
        # Predicted before the first step: both timelines while it trains.
        browser.wait("document.querySelectorAll('#steps .timeline-box').length === 2")
        assert states(browser) == ["running"] and process.poll() is None
        assert texts(browser, "[data-figure=predicted] .value")
        browser.screenshot(pictures / "watch-running.png")
        assert process.wait(900) == 0, process.stderr.read()
        browser.wait("document.documentElement.dataset.runs === 'ended'")
        run = reported(binary, folder, "sync")
        assert run["state"] == "ended" and run["steps"] == 1500
        plan = next(said["text"] for said in run["summary"] if said["about"] == "plan")
        assert plan.endswith("planned by train."), plan  # pipemare is no planner of synchronous plans
        check_shown(browser, run)
        curves = browser.script("return [...document.querySelectorAll('[data-curve]')]"
                                ".map((each) => each.dataset.curve)")
        assert curves == ["loss", "accuracy", "speed", "bubble", "rate", "busy", "memory"], curves
        check_metrics(server, folder, {"sync": run})
        check_layout(browser)
        check_console(browser)
        browser.screenshot(pictures / "watch-ended.png")
        check_explained(browser, run)
        check_layout(browser)
        browser.script("document.getElementById('show-plan').click()")
        browser.wait("document.querySelector('#problem') && document.documentElement.dataset.search === 'done'")
        assert texts(browser, "#comparison tbody tr")


def check_several(browser, binary, folder, pictures):
    """An asynchronous run and one that fails, beside the first."""
    stale = training(binary, folder, "stale", "--steps", "600", "--method", "pipemare", "--stages", "4")
    assert stale.wait(300) == 0, stale.stderr.read()
    failed = training(binary, folder, "failed", "--steps", "200", "--inject", "throw:rank=0,step=150")
    assert failed.wait(300) != 0
    runs = {name: reported(binary, folder, name) for name in ("sync", "stale", "failed")}
    assert runs["failed"]["state"] == "failed" and runs["failed"]["warnings"], runs["failed"]
    with Server(binary, *runs, folder=folder) as server:
        browser.open(server.address)
        browser.wait("document.documentElement.dataset.runs === 'ended ended failed'")
        rows = texts(browser, "#runs tbody tr")
        assert [row.startswith(name) for row, name in zip(rows, runs)] == [True] * 3, rows
        lines = browser.script("return document.querySelectorAll('[data-curve=all-loss] path.line').length")
        assert lines == 3
        check_metrics(server, folder, runs)
        for number, (name, run) in enumerate(runs.items()):
            browser.script(f"document.querySelector(\"#runs tr[data-run='{number}']\").click()")
            browser.wait(f"document.querySelector('#run .hint').textContent === '{name}'")
            check_shown(browser, run)
            named = lambda each: each["text"] if f"step {each['step']}" in each["text"] else (
                f"step {number_text(each['step'])} {each['text']}")
            assert texts(browser, ".warnings li") == [named(each) for each in reversed(run["warnings"])]
            for stage in run["stages"]:
                cells = texts(browser, f"#run-workers tr[data-stage='{stage['stage']}'] td")
                if any(each["staleness"] > 0 for each in run["stages"]):
                    assert cells[1] == f"{number_text(stage['staleness'])} steps", cells
                else:
                    assert not cells
            check_layout(browser)
            browser.screenshot(pictures / f"watch-{name}.png")
        assert any(stage["staleness"] > 0 for stage in runs["stale"]["stages"])
        for path in "/run/3", "/run/99":
            assert server.get(path)[0] == 400
        for path in "/run/-1", "/run/0/..", "/run/x":
            assert server.get(path)[0] == 404
        check_console(browser)


def events(path):
    """[(step, {tag: value})] of an event file: an independent reader of the format."""
    def crc32c(data):
        crc = 0xffffffff
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
        return crc ^ 0xffffffff

    def masked(data):
        crc = crc32c(data)
        return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff

    def fields(data):
        at = 0

        def varint():
            nonlocal at
            value, shift = 0, 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 0x7f) << shift
                shift += 7
                if byte < 0x80:
                    return value
        while at < len(data):
            key = varint()
            if key & 7 == 0:
                yield key >> 3, varint()
                continue
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            yield key >> 3, data[at:at + size]
            at += size
        assert at == len(data)

    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at:at + 8])
        event = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length) == (masked(event),)
        at += 16 + length
        parts = dict(fields(event))
        assert time.time() - 3600 < struct.unpack("<d", parts[1])[0] < time.time() + 60
        if 3 in parts:
            assert at == 16 + length and parts[3] == b"brain.Event:2"
        elif 7 in parts:
            assert dict(fields(parts[7])) == {1: 1}
        else:
            values = [dict(fields(value)) for number, value in fields(parts[5]) if number == 1]
            found.append((parts[2], {value[1].decode(): struct.unpack("<f", value[2])[0] for value in values}))
    assert crc32c(b"123456789") == 0xe3069283  # the published check value
    return found


def check_events(binary, folder):
    """Every line of metrics is in the event files, and nothing else."""
    board = folder / "board"
    for steps, more in ((20, []), (30, ["--resume"])):
        done = training(binary, folder, "board-run", "--steps", str(steps), "--eval-every", "10",
                        "--tensorboard", "board", *more)
        assert done.wait(300) == 0, done.stderr.read()
    as_float = lambda number: struct.unpack("<f", struct.pack("<f", number))[0]
    wanted = []
    for line in (folder / "board-run" / "metrics.jsonl").read_text().splitlines():
        line = json.loads(line)
        held_out = line.get("evaluation")
        values = {"held_out/loss": held_out["loss"], "held_out/accuracy": held_out["accuracy"]} if held_out else {
            "loss": line["loss"], "learning_rate": line["rate"],
            "samples_per_second": line["samples_per_second"]}
        if "bubble" in line:
            values["bubble"] = line["bubble"]
        wanted.append((line["step"], {tag: as_float(value) for tag, value in values.items()}))
    files = sorted(board.iterdir(), key=lambda path: path.stat().st_mtime)
    assert len(files) == 2, files
    key = lambda entry: (entry[0], "loss" in entry[1])
    assert sorted(sum(map(events, files), []), key=key) == sorted(wanted, key=key)
    refused = training(binary, folder, "board-refused", "--steps", "3", "--tensorboard", "/dev/null/x")
    assert refused.wait(300) == 0 and "training goes on" in refused.stderr.read()


def check_watch(browser, binary, folder):
    """train --watch: the page is there while the training is, and ends with it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = training(binary, folder, "watched", "--steps", "100000", f"--watch={port}")
    for line in process.stderr:
        if line.startswith("http://"):
            break
    assert line.split()[0] == f"http://127.0.0.1:{port}/", line
    browser.open(f"http://127.0.0.1:{port}/")
    browser.wait("document.documentElement.dataset.runs === 'running'")
    browser.open("about:blank")  # the viewer vanishes
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130, process.returncode
    for _ in range(600):
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) != 0:
                break
        time.sleep(0.05)
    else:
        raise AssertionError("the page is there after the training")
    run = reported(binary, folder, "watched")  # what was asked for is no failure
    assert run["state"] == "stopped", run["summary"]
    assert run["summary"][0]["text"].startswith("Stopped by Ctrl-C (SIGINT) after "), run["summary"]
    lines = (folder / "watched" / "metrics.jsonl").read_text().splitlines()
    assert len([line for line in lines if "loss" in json.loads(line)]) > 0
    # A port that is taken is a message, and training goes on.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = training(binary, folder, "taken", "--steps", "3", f"--watch={taken.getsockname()[1]}")
        assert done.wait(300) == 0, done.stderr.read()
    assert len((folder / "taken" / "metrics.jsonl").read_text().splitlines()) == 4


def main():
    binary, pictures = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    found, reason = find_browser()
    if not found or not has_server(binary):
        print(f"skipped: {reason or 'this build has no HTTP server'}")
        return
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pipewright-watch-") as name, Browser() as browser:
        folder = pathlib.Path(name)
        check_one(browser, binary, folder, pictures)
        browser.open("about:blank")
        browser.console()  # of requests to the server that has ended
        check_several(browser, binary, folder, pictures)
        browser.open("about:blank")
        check_watch(browser, binary, folder)
        check_events(binary, folder)
    print("runs are watched to their end")


if __name__ == "__main__":
    main()
