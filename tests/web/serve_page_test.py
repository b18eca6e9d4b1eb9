#!/usr/bin/env python3
"""The page of `pipewright serve`, in a real browser.

    serve_page_test.py BINARY SCREENSHOTS

A problem is typed, the ranking fills, a click shows a plan, a change plans
anew, the file that the button saves is the one that the shown command writes,
and wrong input is an error on the page. Prints "skipped: ..." where there is no
browser or no HTTP server.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.parse

sys.dont_write_bytecode = True
from browser import Browser, find_browser
from report_test import check_console, check_layout, seconds_text, texts
from server import Server, has_server

SET = """
    const field = document.querySelector(`[name=${arguments[0]}]`);
    field.value = arguments[1];
    field.dispatchEvent(new Event('input', {bubbles: true}));"""
CHOOSE = """
    for (const box of document.querySelectorAll(`[name=${arguments[0]}]`))
      box.checked = arguments[1].includes(box.value);
    document.querySelector(`[name=${arguments[0]}]`).dispatchEvent(new Event('input', {bubbles: true}));"""


def wait_for_plans(browser):
    browser.wait("document.documentElement.dataset.search === 'done'")


def wait_for_shown(browser, planner):
    browser.wait(f"document.documentElement.dataset.shown === '{planner}, sync' && "
                 "document.querySelector('.timeline-box')")


def status(browser):
    return texts(browser, "#status")[0]


def rows(browser):
    """Of the ranking: planner and step."""
    cells = browser.script("""return [...document.querySelectorAll('#comparison tbody tr')].map(
        (row) => [...row.cells].map((cell) => cell.textContent))""")
    return {row[0]: row[5] for row in cells}


def made_by(binary, command, folder):
    subprocess.run(command.replace("pipewright", str(binary), 1), shell=True, cwd=folder, check=True,
                   capture_output=True)
    return json.loads((pathlib.Path(folder) / "plan.json").read_text())


def saved(browser):
    address = browser.script("return document.getElementById('save').href")
    return json.loads(urllib.parse.unquote(address.split(",", 1)[1]))


def check_planning(browser, server, binary, folder, pictures):
    browser.resize(1280, 900)
    browser.open(server.address)
    browser.wait("document.documentElement.dataset.ready")
    browser.script(CHOOSE, "planners", ["uniform", "balanced", "bapipe", "data-parallel"])
    wait_for_plans(browser)
    assert status(browser) == "All planners have answered", status(browser)
    printed = json.loads(subprocess.run(
        [binary, "compare", "--model", "vgg16", "--cluster", "4xV100@1GB/s", "--minibatch", "64",
         "--method", "sync", "--json"], capture_output=True, text=True, check=True).stdout)
    steps = {plan["planner"]: seconds_text(plan["step_seconds"]) for plan in printed["plans"]
             if "refused" not in plan}
    shown = rows(browser)
    assert len(shown) == 4 and all(steps[planner] == step for planner, step in shown.items()), shown
    first = next(iter(shown))
    wait_for_shown(browser, first)
    assert texts(browser, "[data-figure=step] .value")[0] == shown[first]
    other = [planner for planner in shown if planner != first][0]
    browser.script("""[...document.querySelectorAll('#comparison tbody tr')].find(
        (row) => row.cells[0].textContent === arguments[0]).click()""", other)
    wait_for_shown(browser, other)
    assert texts(browser, "[data-figure=step] .value")[0] == shown[other]
    command = texts(browser, "#command")[0]
    assert f"--planner {other}" in command
    assert saved(browser) == made_by(binary, command, folder)
    browser.script("""const beside = document.getElementById('beside');
        beside.value = beside.options[1].value; beside.dispatchEvent(new Event('change'));""")
    browser.wait("document.getElementById('beside-plans')")
    check_layout(browser)
    check_console(browser)
    browser.screenshot(pictures / "serve.png")


def check_changes(browser, pictures):
    """Devices, bandwidth, microbatches and memory plan anew; the cluster's parts follow its text."""
    before = rows(browser)
    value = lambda name: browser.script(f"return document.querySelector('[name={name}]').value")
    for name, text, cluster in (("devices", "8", "8xV100@1GB/s"), ("link", "10GB/s", "8xV100@10GB/s"),
                                ("microbatches", "8", "8xV100@10GB/s")):
        browser.script(SET, name, text)
        wait_for_plans(browser)
        assert value("cluster") == cluster, value("cluster")
        after = rows(browser)
        assert after and after != before, (name, after)
        before = after
    browser.script(SET, "cluster", "2xP100@1GB/s")
    wait_for_plans(browser)
    assert [value(name) for name in ("devices", "kind", "link")] == ["2", "P100", "1GB/s"]
    browser.script(SET, "cluster", "2x4xV100@nvlink/10GbE")
    wait_for_plans(browser)
    assert [value(name) for name in ("devices", "kind", "link")] == ["", "", ""]
    assert rows(browser)
    browser.script(SET, "memory", "1MB")
    wait_for_plans(browser)
    assert "without a plan" in texts(browser, "#comparison summary")[0]
    browser.script(SET, "memory", "")
    wait_for_plans(browser)
    check_console(browser)


def check_wrong(browser):
    """The server's words are on the page; the next right input is planned."""
    for name, text, said in (("model", "vgg61", "unknown model"), ("cluster", "4xV001", "V100"),
                             ("memory", "much", "much"), ("microbatches", "7", "divide"),
                             ("model", "<img src=x onerror=alert(1)>", "<img")):
        right = browser.script(f"return document.querySelector('[name={name}]').value")
        browser.script(SET, name, text)
        wait_for_plans(browser)
        assert said in status(browser), (text, status(browser))
        assert browser.script("return document.querySelectorAll('img').length") == 0
        browser.script(SET, name, right)
        wait_for_plans(browser)
        assert status(browser) == "All planners have answered"
    # The browser itself logs answers with an error's status.
    messages = [message for message in browser.console() if "400 (Bad Request)" not in message]
    assert not messages, messages


def check_unwanted(browser, server):
    """A change stops the search before; so does the button."""
    browser.script(CHOOSE, "planners", ["auto"])
    for name, text in (("model", "gpt:layers=200"), ("cluster", "8x8xV100@nvlink/10GbE"), ("minibatch", "256")):
        browser.script(SET, name, text)
    browser.wait("document.getElementById('status').textContent === 'Planning ...' && !document.getElementById('stop').hidden")
    browser.script("document.getElementById('stop').click()")
    wait_for_plans(browser)
    assert status(browser) == "Stopped", status(browser)
    browser.script(CHOOSE, "planners", ["uniform"])
    browser.script(SET, "model", "resnet50")
    browser.script(SET, "cluster", "2xV100@1GB/s")
    wait_for_plans(browser)
    assert list(rows(browser)) == ["uniform"]
    check_console(browser)


def check_narrow(browser, server, pictures):
    browser.prefer("dark")
    browser.resize(420, 900)
    browser.open(server.address)
    browser.script(CHOOSE, "planners", ["balanced", "bapipe"])
    wait_for_plans(browser)
    browser.wait("document.querySelector('.timeline-box')")
    check_layout(browser)
    check_console(browser)
    browser.screenshot(pictures / "serve-narrow.png")


def main():
    binary, pictures = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    found, reason = find_browser()
    if not found or not has_server(binary):
        print(f"skipped: {reason or 'this build has no HTTP server'}")
        return
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pipewright-serve-") as folder, Browser() as browser:
        with Server(binary, folder=folder) as server:
            check_planning(browser, server, binary, folder, pictures)
            check_changes(browser, pictures)
            check_wrong(browser)
            check_unwanted(browser, server)
            check_narrow(browser, server, pictures)
        browser.script(SET, "model", "vgg16")
        wait_for_plans(browser)
        assert "does not answer" in status(browser), status(browser)
    print("plans are made as they are typed")


if __name__ == "__main__":
    main()
