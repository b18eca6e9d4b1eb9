"""Drives a real browser through its WebDriver, with Python's standard library.

    with Browser() as browser:
        browser.open("file:///tmp/report.html")
        browser.script("return document.title")

Debian's chromium and chromium-driver; find_browser() says what is missing.
"""

import base64
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request


def find_browser():
    """Paths of browser and driver, or the reason why there are none."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not browser or not driver:
        missing = "chromium" if not browser else "chromium-driver"
        return None, f"{missing} is not installed (tools/setup web installs it)"
    return (browser, driver), ""


class Browser:
    def __init__(self, width=1280, height=900):
        (self.browser, self.driver), _ = find_browser()
        self.size = width, height

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="pipewright-browser-")
        # A free port is chosen and printed.
        self.process = subprocess.Popen([self.driver, "--port=0"], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        port = None
        while port is None:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("the browser's driver did not start")
            port = re.search(r"started successfully on port (\d+)", line)
        self.base = f"http://127.0.0.1:{port.group(1)}"
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--force-device-scale-factor=1", "--hide-scrollbars",
                   f"--user-data-dir={self.folder.name}",
                   f"--window-size={self.size[0]},{self.size[1]}"]
        wanted = {"goog:chromeOptions": {"binary": self.browser, "args": options},
                  "goog:loggingPrefs": {"browser": "ALL"}, "timeouts": {"script": 60000}}
        self.session = ""
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{answer['sessionId']}"
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self.call("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.wait(10)
            self.process.stdout.close()
            self.folder.cleanup()

    def call(self, method, path, body=None):
        data = None if method in ("GET", "DELETE") else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].split("\n")[0]) from None

    def open(self, address):
        self.call("POST", self.session + "/url", {"url": address})

    def script(self, text, *arguments):
        return self.call("POST", self.session + "/execute/sync",
                         {"script": text, "args": list(arguments)})

    def wait(self, condition):
        """Until the expression is true in the page, at most 60 seconds."""
        return self.call("POST", self.session + "/execute/async", {"args": [], "script": f"""
            const done = arguments[arguments.length - 1];
            const look = () => (({condition}) ? done(true) : setTimeout(look, 20));
            look();"""})

    def protocol(self, command, **parameters):
        return self.call("POST", self.session + "/goog/cdp/execute",
                         {"cmd": command, "params": parameters})

    def resize(self, width, height):
        self.protocol("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme):
        self.protocol("Emulation.setEmulatedMedia",
                      features=[{"name": "prefers-color-scheme", "value": scheme}])

    def mouse(self, *steps):
        """Steps: (x, y) moves there, "down" and "up" press and release, "wheel" scrolls."""
        actions = []
        for step in steps:
            if step == "down":
                actions.append({"type": "pointerDown", "button": 0})
            elif step == "up":
                actions.append({"type": "pointerUp", "button": 0})
            else:
                actions.append({"type": "pointerMove", "duration": 0, "origin": "viewport",
                                "x": int(step[0]), "y": int(step[1])})
        self.call("POST", self.session + "/actions", {"actions": [
            {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
             "actions": actions}]})

    def keys(self, text):
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.call("POST", self.session + "/actions",
                  {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def console(self):
        """Messages since the last call, at least warnings."""
        entries = self.call("POST", self.session + "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path):
        """The whole page."""
        picture = self.protocol("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))

    def pdf(self, path):
        text = self.call("POST", self.session + "/print", {"background": True})
        pathlib.Path(path).write_bytes(base64.b64decode(text))
