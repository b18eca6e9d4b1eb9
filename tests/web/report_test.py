#!/usr/bin/env python3
"""The page of `pipewright report`, in a real browser.

    report_test.py BINARY SCREENSHOTS

Every panel is drawn from real plans, its numbers equal `--json`, zoom and
highlight work, hostile names stay text, and the console stays empty. Keeps
pictures in the folder SCREENSHOTS. Prints "skipped: ..." where there is no
browser.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from browser import Browser, find_browser

HOSTILE = ("<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'//",
           "\u202e\u0000\u200b\ufeff\U0001f4a5\u0627\u0644\u2028<!--]]>", "n" * (1 << 20))


class Reports:
    """Plans and their pages, made by the program."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, pathlib.Path(folder)

    def run(self, *arguments, code=0):
        done = subprocess.run([self.binary, *map(str, arguments)], text=True,
                              capture_output=True, cwd=self.folder, check=False)
        assert done.returncode == code, (arguments, done.returncode, done.stderr)
        return done

    def plan(self, name, *arguments):
        self.run("plan", *arguments, "-o", f"{name}.json")
        return f"{name}.json"

    def report(self, name, *arguments):
        """The page's address, and the same data as --json."""
        self.run("report", *arguments, "-o", f"{name}.html")
        data = json.loads(self.run("report", *arguments, "--json").stdout)
        return (self.folder / f"{name}.html").as_uri(), data


def show(browser, address):
    browser.open(address)
    browser.wait("document.documentElement.dataset.ready")
    browser.wait("document.querySelector('.timeline-box').dataset.redrawMs")


def texts(browser, selector):
    return browser.script("return [...document.querySelectorAll(arguments[0])]"
                          ".map((each) => each.textContent)", selector)


def seconds_text(seconds):
    for factor, name in ((1, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")):
        if seconds >= factor * 0.9995:
            break
    return f"{number_text(seconds / factor)} {name}s"


def bytes_text(size):
    for factor, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, "")):
        if size >= factor * 0.9995:
            break
    return f"{number_text(size / factor)} {name}B"


def number_text(number):
    digits = max(3, len(str(int(abs(number))))) if abs(number) >= 1 else 3
    return f"{number:.{digits}g}"


def percent_text(share):
    # As JavaScript and C++ round: halves away from zero.
    return f"{number_text(int(share * 1000 + 0.5) / 10)} %"


def check_numbers(browser, data):
    """What the panels say is what --json says."""
    report = data["plans"][0]
    simulation = report["simulation"]
    figure = lambda name: texts(browser, f"[data-figure={name}] .value")[0]
    assert figure("step") == seconds_text(simulation["step_seconds"]), figure("step")
    assert figure("bubble") == percent_text(simulation["bubble"]), figure("bubble")
    assert figure("gap") == percent_text(report["bound"]["gap"]), figure("gap")
    sent = sum(link["bytes_per_step"] + link["reduced_bytes_per_step"]
               for link in report["cluster"]["links"])
    assert figure("sent") == bytes_text(sent), figure("sent")
    for said in report["summary"]:
        assert texts(browser, f"dd[data-about={said['about']}]") == [said["text"]]
    saved = [f"-{percent_text(each['saved'])}" for each in report["improvements"]]
    assert texts(browser, ".improvements .saved") == saved
    for worker, device in enumerate(simulation["devices"]):
        cells = texts(browser, f"#timeline tr[data-worker='{worker}'] td")
        busy = device["busy_seconds"] / simulation["duration_seconds"]
        assert cells[2] == percent_text(busy), cells
        assert cells[5] == bytes_text(device["memory_peak_bytes"]), cells
    for stage, each in enumerate(report["model"]["stages"]):
        cells = texts(browser, f"#model tr[data-stage='{stage}'] td")
        assert cells[2] == seconds_text(each["forward_seconds"]), cells
        assert cells[4] == bytes_text(each["parameter_bytes"]), cells
    for link in report["cluster"]["links"]:
        cells = texts(browser, f"#cluster tr[data-link='{link['from']}-{link['to']}'] td")
        assert cells[1] == bytes_text(link["bytes_per_step"] + link["reduced_bytes_per_step"])


def timeline_data(browser):
    return browser.script("return {...document.querySelector('.timeline-box').dataset}")


def place_of(browser, report, worker, span):
    """The middle of an action of the timeline, in the window."""
    browser.script("document.querySelector('.timeline-box').scrollIntoView({block: 'center'})")
    return browser.script("""
        const view = document.getElementById('timeline').view;
        const row = view.rows.find((each) => each.worker === arguments[0]);
        const box = view.canvas.getBoundingClientRect();
        const x = (view.x(row.starts[arguments[1]]) + view.x(row.ends[arguments[1]])) / 2;
        return [box.left + x, box.top + row.top + row.height / 2];""", worker, span)


def check_timeline(browser, data):
    """Hover, highlight, zoom, pan, toggles, keyboard."""
    report = data["plans"][0]
    row = report["timeline"]["workers"][1]
    place = place_of(browser, report, 1, 0)
    browser.mouse(place)
    said = timeline_data(browser)["hover"]
    assert said == f"forward of stage {row['stages'][0]}, microbatch {row['microbatches'][0]}", said
    lines = texts(browser, "#tooltip div")
    assert any(line.startswith("reads activation from worker 0") for line in lines), lines
    back = row["kinds"].index("B")
    browser.mouse(place_of(browser, report, 1, back))
    lines = texts(browser, "#tooltip div")
    assert any(line.startswith(f"needs its forward of stage {row['stages'][back]} here") for line in lines), lines
    browser.mouse(place, "down", "up")
    assert json.loads(timeline_data(browser)["highlight"]) == {"microbatch": row["microbatches"][0]}
    browser.mouse(place, "down", "up")
    assert timeline_data(browser)["highlight"] == ""
    before = timeline_data(browser)
    browser.script("document.querySelector('.timeline-box canvas').focus()")
    browser.keys("+")
    browser.wait(f"document.querySelector('.timeline-box').dataset.to !== '{before['to']}'")
    zoomed = timeline_data(browser)
    shown = lambda view: float(view["to"]) - float(view["from"])
    assert abs(shown(before) / shown(zoomed) - 1.6) < 0.01, zoomed
    check_axis(browser)
    x, y = place_of(browser, report, 1, 0)
    browser.mouse((x + 200, y), "down", (x + 100, y), "up")
    browser.wait(f"document.querySelector('.timeline-box').dataset.from !== '{zoomed['from']}'")
    panned = timeline_data(browser)
    assert float(panned["from"]) > float(zoomed["from"])
    assert abs(shown(panned) - shown(zoomed)) < 1
    browser.script("document.querySelector('.timeline-box canvas').focus()")
    browser.keys("0")
    browser.wait("document.querySelector('.timeline-box').dataset.from === '0'")
    path, links = timeline_data(browser)["path"], timeline_data(browser)["links"]
    browser.keys("cl")
    now = timeline_data(browser)
    assert (now["path"], now["links"]) != (path, links) and now["path"] == "true"
    pressed = browser.script("""return [...document.querySelectorAll('.toolbar [aria-pressed]')]
        .map((each) => [each.textContent, each.getAttribute('aria-pressed')])""")
    assert pressed == [["Links", now["links"]], ["Critical path", now["path"]]], pressed
    browser.keys("cl")
    for key, chosen in ((".", {"microbatch": 0}), (".", {"microbatch": 1}), (",", {"microbatch": 0}),
                        ("\ue015", {"worker": 0}), ("\ue013", {"worker": 3})):  # arrows down and up
        browser.keys(key)
        assert json.loads(timeline_data(browser)["highlight"]) == chosen, timeline_data(browser)
    browser.keys("\ue00c")  # Escape
    assert timeline_data(browser)["highlight"] == ""


def check_axis(browser):
    """However far one zooms in, no two lines of the axis have the same name."""
    was = timeline_data(browser)
    for share in 1, 0.1, 0.01, 0.001, 0.0001:
        named = browser.script("""
            const view = document.getElementById('timeline').view, middle = view.run * 0.6;
            view.from = middle;
            view.to = middle + view.run * 0.4 * arguments[0];
            view.redraw();
            return view.box.dataset.axis;""", share).split(", ")
        assert len(named) > 2 and len(set(named)) == len(named), (share, named)
    browser.script("const view = document.getElementById('timeline').view;"
                   "[view.from, view.to] = arguments; view.redraw()", float(was["from"]), float(was["to"]))


def check_sorting(browser, selector, column, values):
    """A click on a title sorts, another one turns the order around."""
    shown = lambda: texts(browser, f"{selector} tbody td:nth-child({column})")
    for order in sorted(values), sorted(values, reverse=True):
        browser.script(f"document.querySelector('{selector} th:nth-child({column}) button').click()")
        assert shown() == [seconds_text(value) for value in order], shown()


def check_console(browser):
    messages = browser.console()
    assert not messages, messages
    assert browser.script("return document.title !== 'hacked'")


def check_layout(browser):
    """Nothing is wider than the window, no text runs out of its box."""
    wide = browser.script("""
        const wide = [...document.querySelectorAll('.panel, .figure, .panel *')].filter((each) =>
          !each.closest('.scroll') && !each.closest('svg') && each.getClientRects().length > 0 &&
          each.getBoundingClientRect().right > innerWidth + 1);
        return wide.map((each) => each.outerHTML.slice(0, 80));""")
    assert not wide, wide
    cut = browser.script("""
        return [...document.querySelectorAll('.figure .value, .improvements .what, dd, h1')]
          .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent);""")
    assert not cut, cut


def check_small(reports, browser, pictures):
    plan = reports.plan("small", "--model", "vgg16", "--cluster", "4xV100@1GB/s",
                        "--minibatch", 64, "--microbatch", 4, "--planner", "bapipe")
    address, data = reports.report("small", plan, "--cluster", "4xV100@1GB/s")
    text = (reports.folder / "small.html").read_text()
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
    for scheme in "light", "dark":
        browser.prefer(scheme)
        browser.resize(1280, 900)
        show(browser, address)
        check_numbers(browser, data)
        check_timeline(browser, data)
        check_layout(browser)
        check_console(browser)
        browser.mouse((0, 0))
        browser.screenshot(pictures / f"report-{scheme}.png")
    browser.prefer("light")
    browser.resize(420, 900)
    show(browser, address)
    check_layout(browser)
    browser.screenshot(pictures / "report-narrow.png")
    browser.resize(1280, 900)
    browser.pdf(pictures / "report.pdf")
    check_print(browser, pictures)
    check_console(browser)
    simulated = json.loads(reports.run("simulate", plan, "--cluster", "4xV100@1GB/s",
                                       "--json").stdout)
    # What simulate answers beside it.
    assert simulated.pop("fits") is True and simulated.pop("number_type") == "float32"
    assert data["plans"][0]["simulation"] == simulated


def check_print(browser, pictures):
    """On paper: light, no buttons nor what they do, but what lines mean; tables whole."""
    browser.protocol("Emulation.setEmulatedMedia", media="print",
                     features=[{"name": "prefers-color-scheme", "value": "dark"}])
    found = browser.script("""
        const style = (selector) => getComputedStyle(document.querySelector(selector));
        return [style('.toolbar').display, style('#timeline .doable').display, style('#cluster .hint').display,
                style('.tall-table .scroll').maxHeight, style('.panel').backgroundColor];""")
    browser.screenshot(pictures / "report-print.png")
    browser.protocol("Emulation.setEmulatedMedia", media="", features=[])
    assert found == ["none", "none", "block", "none", "rgb(255, 255, 255)"], found


def check_kinds(reports, browser, pictures):
    """Plans of other shapes: replicas, asynchronous, split backward, one device."""
    for name, cluster, more in (
            ("replicas", "2x4xV100@nvlink/10GbE", ["--planner", "dapple"]),
            ("stale", "4xV100@1GB/s", ["--planner", "pipemare", "--method", "pipemare"]),
            ("bi-partition", "3xV100@1GB/s", ["--planner", "bi-partition"]),
            ("single", "1xV100", ["--planner", "data-parallel"])):
        plan = reports.plan(name, "--model", "resnet50", "--cluster", cluster, "--minibatch", 32,
                            *more)
        address, data = reports.report(name, plan, "--cluster", cluster)
        show(browser, address)
        check_numbers(browser, data)
        check_layout(browser)
        check_console(browser)
        browser.screenshot(pictures / f"report-{name}.png")


def check_hostile(reports, browser, hostile):
    """The name of the model and of a layer is text, whatever it contains."""
    plan = reports.plan("named", "--model", "mlp:layers=6", "--cluster", "2xV100@1GB/s",
                        "--minibatch", 8)
    reports.run("profile", "mlp:layers=6", "--analytic", "--device", "V100",
                "--microbatch", "1,2,4,8", "-o", "named-profile.json")
    profile = json.loads((reports.folder / "named-profile.json").read_text())
    named = json.loads((reports.folder / plan).read_text())
    def renamed(value):
        if isinstance(value, dict):
            return {key: renamed(each) for key, each in value.items()}
        if isinstance(value, list):
            return [renamed(each) for each in value]
        return hostile if value == middle else value
    middle = profile["layers"][len(profile["layers"]) // 2]["name"]
    profile = renamed(profile)
    profile["model"] = named["model"] = hostile
    (reports.folder / "hostile-profile.json").write_text(json.dumps(profile))
    (reports.folder / "hostile.json").write_text(json.dumps(renamed(named)))
    address, data = reports.report("hostile", "hostile.json", "--cluster", "2xV100@1GB/s",
                                   "--profile", "hostile-profile.json")
    show(browser, address)
    assert texts(browser, "h1") == [data["title"]] and hostile in data["title"]
    box = browser.script("""
        const canvas = document.querySelector('.model-box canvas');
        canvas.scrollIntoView({block: 'center'});
        const box = canvas.getBoundingClientRect(), left = 74;
        return [box.left + left + (box.width - left) * arguments[0], box.top + 60];""",
        (len(profile["layers"]) // 2 + 0.5) / len(profile["layers"]))
    browser.mouse(box)
    assert hostile in texts(browser, "#tooltip div")[0]
    tall = browser.script("return Math.max(...['#tooltip', 'h1', 'dd'].map("
                          "(each) => document.querySelector(each).getBoundingClientRect().height))")
    assert tall <= browser.script("return innerHeight"), tall
    assert browser.script("return document.querySelectorAll('img, iframe').length") == 0
    check_layout(browser)
    check_console(browser)


def check_compare(reports, browser, pictures):
    """The table and the dots of --compare; a click shows a plan, a choice a second."""
    problem = ["--model", "vgg16", "--cluster", "4xV100@1GB/s", "--minibatch", 64,
               "--microbatch", "4,8", "--budget", 0.5]
    reports.run("report", "--compare", *problem, "-o", "compare.html")
    text = (reports.folder / "compare.html").read_text()
    begin = text.index('id="report-data">') + len('id="report-data">')
    data = json.loads(text[begin:text.index("</script>", begin)])
    rows = data["comparison"]["plans"]
    browser.resize(1280, 900)
    show(browser, (reports.folder / "compare.html").as_uri())
    for row, plan in enumerate(rows):
        cells = texts(browser, f"#comparison tr[data-row='{row}'] td")
        if "refused" in plan:
            assert not cells
            continue
        assert cells[0] == plan["planner"] and seconds_text(plan["step_seconds"]) in cells, cells
        assert bytes_text(plan["memory_bytes"]) in cells, cells
        others = [each for each in rows if "refused" not in each]
        front = not any(each["step_seconds"] <= plan["step_seconds"] and
                        each["memory_bytes"] <= plan["memory_bytes"] and
                        (each["step_seconds"], each["memory_bytes"]) !=
                        (plan["step_seconds"], plan["memory_bytes"]) for each in others)
        assert data["front"][row] == front, plan
    why = data["comparison"]["why"]
    assert texts(browser, "#why") == [why] and texts(browser, "dd[data-about=why]") == [why]
    first = data["plans"][data["reported"][data["first"]]]
    assert data["reported"][data["first"]] == 0
    step = lambda: texts(browser, "[data-figure=step] .value")[0]
    assert step() == seconds_text(first["simulation"]["step_seconds"])
    other = max(row for row, report in enumerate(data["reported"]) if report > 0)
    browser.script(f"document.querySelector(\"#comparison tr[data-row='{other}']\").focus()")
    browser.keys("\ue007")  # Enter
    assert step() == seconds_text(rows[other]["step_seconds"])
    assert rows[data["first"]]["planner"] in texts(browser, "dd[data-about=why]")[0]
    browser.script("""const beside = document.getElementById('beside');
        beside.value = arguments[0]; beside.dispatchEvent(new Event('change'));""",
        str(data["first"]))
    assert seconds_text(rows[data["first"]]["step_seconds"]) in texts(browser, "#beside-plans td")
    check_sorting(browser, "#comparison", 6, [plan["step_seconds"] for plan in rows if "refused" not in plan])
    browser.script("""const choice = document.querySelector('[data-filter=method]');
        choice.value = 'sync'; choice.dispatchEvent(new Event('change'));""")
    shown = texts(browser, "#comparison tbody td:nth-child(2)")
    assert shown and set(shown) == {"sync"}, shown
    check_layout(browser)
    check_console(browser)
    browser.screenshot(pictures / "report-compare.png")


def check_run(reports, browser, pictures):
    """A recorded run: figures, curves, the measured and the predicted step."""
    folder = pathlib.Path(__file__).parent / "recorded-run"
    address, data = reports.report("run", folder)
    run = data["run"]
    summary = json.loads((folder / "summary.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    assert run["curves"]["loss"] == [line["loss"] for line in steps]
    assert len(run["curves"]["evaluations"]) == len(lines) - len(steps)
    times = sorted(line["step_seconds"] for line in steps)
    assert run["step_seconds"] == times[len(times) // 2]
    browser.resize(1280, 900)
    browser.open(address)
    browser.wait("document.documentElement.dataset.ready")
    figure = lambda name: texts(browser, f"[data-figure={name}] .value")[0]
    assert figure("measured") == seconds_text(run["step_seconds"])
    assert figure("predicted") == seconds_text(run["predicted_seconds"])
    assert figure("accuracy") == percent_text(summary["evaluation"]["accuracy"])
    curves = browser.script("return [...document.querySelectorAll('[data-curve]')]"
                            ".map((each) => each.dataset.curve)")
    assert curves == ["loss", "accuracy", "speed", "bubble", "rate", "busy", "memory"], curves
    for curve in curves:
        named = texts(browser, f"[data-curve={curve}] .tick.end")
        assert len(named) > 1 and len(set(named)) == len(named), (curve, named)
    assert len(texts(browser, "#steps .timeline-box")) == 2 and len(run["differences"]) == 8
    # The summary alone: which plan, why, what bounds it, did the run do what was predicted.
    told = {said["about"]: said["text"] for said in run["summary"]}
    assert list(told) == ["state", "plan", "why", "bottleneck", "training", "prediction"], told
    assert "2 stages on 2 workers" in told["plan"] and "planned by balanced" in told["plan"]
    assert "of the critical path" in told["bottleneck"] and "were predicted" in told["prediction"]
    fullest = max(run["workers"], key=lambda worker: worker["memory_bytes"])
    assert f"worker, {fullest['worker']}, held {bytes_text(fullest['memory_bytes'])}; " in told["prediction"], told
    for about, text in told.items():
        assert texts(browser, f"#run dd[data-about={about}]") == [text]
    # The plan below has the costs of the prediction.
    plan = data["plans"][0]
    assert abs(plan["simulation"]["step_seconds"] / run["predicted_seconds"] - 1) < 1e-3
    for about in "why", "bottleneck":
        assert texts(browser, f"#summary dd[data-about={about}]") == [told[about]]
    panels = browser.script("return [...document.querySelectorAll('#plan .panel')].map((each) => each.id)")
    assert panels == ["summary", "timeline", "memory", "model", "cluster"], panels
    check_layout(browser)
    check_console(browser)
    browser.screenshot(pictures / "report-run.png")


def check_bad(reports):
    """Bad inputs are errors, and leave no file."""
    for code, arguments in (
            (66, ["missing.json", "--cluster", "2xV100"]),
            (65, ["small.html", "--cluster", "2xV100"]),
            (78, ["small.json", "--cluster", "2xV100"]),
            (2, ["--cluster", "2xV100"]), (2, ["--compare", "--cluster", "2xV100", "--model", "vgg16"]),
            (2, ["small.json", "--compare", "--cluster", "2xV100", "--minibatch", "8"]),
            (66, ["."]),
            (73, ["small.json", "--cluster", "4xV100@1GB/s", "-o", "no/such/folder/x.html"])):
        done = reports.run("report", *arguments, *([] if "-o" in arguments else ["-o", "bad.html"]),
                           code=code)
        assert done.stderr.startswith("pipewright: "), done.stderr
        assert len(done.stderr) < 2000, done.stderr
        assert not (reports.folder / "bad.html").exists()


def check_huge(reports, browser, pictures):
    """64 workers and 256 microbatches are drawn whole, more are thinned out."""
    plan = reports.plan("huge", "--model", "gpt:layers=64", "--cluster", "8x8xV100@nvlink/100Gb/s",
                        "--minibatch", 256, "--microbatch", 1, "--planner", "uniform")
    address, data = reports.report("huge", plan, "--cluster", "8x8xV100@nvlink/100Gb/s")
    timeline = data["plans"][0]["timeline"]
    assert len(timeline["workers"]) == 64 and timeline["thinned"] == ""
    assert (reports.folder / "huge.html").stat().st_size < 5e6
    show(browser, address)
    check_numbers(browser, data)
    check_layout(browser)
    check_console(browser)
    browser.screenshot(pictures / "report-64x256.png")
    times = browser.script("""
        const view = document.getElementById('timeline').view, times = [];
        for (let i = 0; i < 20; ++i) { view.redraw(); times.push(Number(view.box.dataset.redrawMs)); }
        view.showLinks = true;
        for (let i = 0; i < 20; ++i) { view.redraw(); times.push(Number(view.box.dataset.redrawMs)); }
        return times.sort((a, b) => a - b);""")
    print(f"64 x 256: redraw {times[20]:.1f} ms in the median, {times[-1]:.1f} ms at most; "
          f"{(reports.folder / 'huge.html').stat().st_size / 1e6:.1f} MB")


def main():
    binary, pictures = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    found, reason = find_browser()
    if not found:
        print(f"skipped: {reason}")
        return
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pipewright-report-") as folder, Browser() as browser:
        reports = Reports(binary, folder)
        check_small(reports, browser, pictures)
        check_kinds(reports, browser, pictures)
        for hostile in HOSTILE:
            check_hostile(reports, browser, hostile)
        check_compare(reports, browser, pictures)
        check_run(reports, browser, pictures)
        check_bad(reports)
        check_huge(reports, browser, pictures)
    print("every panel is drawn, and equals --json")


if __name__ == "__main__":
    main()
