#!/usr/bin/env python3
"""`pipewright serve` over plain HTTP: what it answers, and what it refuses.

    serve_test.py BINARY

Right answers equal those of the commands. Wrong, huge, slow, compressed and
foreign requests get an error, and the server goes on. It ends by a signal while
it searches. Prints "skipped: ..." where the program has no HTTP server.
"""

import gzip
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from random import Random

sys.dont_write_bytecode = True
from server import Server, has_server

PROBLEM = {"model": "vgg16", "cluster": "4xV100@1GB/s", "minibatch": 64, "microbatches": [4, 8],
           "memory": ""}
SEARCH = {**PROBLEM, "planners": ["uniform", "balanced", "bapipe"], "methods": ["sync"]}


def rankings(server, request):
    status, text = server.post("/compare", request)
    assert status == 200, text
    return [json.loads(line) for line in text.splitlines()]


def check_search(server, binary, folder):
    """A line per planner; the last equals what the printed commands make."""
    lines = rankings(server, {**SEARCH, "planners": SEARCH["planners"] + ["auto"],
                              "methods": ["sync", "2bw"]})
    assert [line["answered"] for line in lines] == list(range(1, 9))
    assert all(line["asked"] == 8 for line in lines)
    for line in lines:
        plans = line["comparison"]["plans"]
        steps = [plan["step_seconds"] for plan in plans if "refused" not in plan]
        assert steps == sorted(steps) and len(plans) == line["answered"]
        assert len(line["front"]) == len(line["files"]) == len(line["commands"]) == len(plans)
    last = lines[-1]
    for row, plan in enumerate(last["comparison"]["plans"]):
        if "refused" in plan or plan["planner"] == "auto":
            continue
        command = last["commands"][row]
        assert f"--planner {plan['planner']}" in command
        done = subprocess.run(command.replace("pipewright", str(binary), 1), shell=True,
                              cwd=folder, capture_output=True, text=True, check=True)
        made = json.loads((pathlib.Path(folder) / "plan.json").read_text())
        assert made == last["files"][row], (command, done.stdout)
    return last


def check_report(server, last, binary, folder):
    """A plan's report equals that of the command."""
    row = last["first"]
    status, text = server.post("/report", {**PROBLEM, "plan": last["files"][row]})
    assert status == 200, text
    served = json.loads(text)
    (pathlib.Path(folder) / "shown.json").write_text(json.dumps(last["files"][row]))
    printed = json.loads(subprocess.run(
        [binary, "report", "shown.json", "--cluster", PROBLEM["cluster"], "--json"], cwd=folder,
        capture_output=True, text=True, check=True).stdout)
    # The command takes the number type from the plan and says so.
    printed["plans"][0]["model"]["name"] = PROBLEM["model"]
    for key in "plan", "simulation", "timeline", "memory", "model", "cluster":
        assert served["plans"][0][key] == printed["plans"][0][key], key
    status, text = server.post("/report", {**PROBLEM, "cluster": "2xV100@1GB/s",
                                           "plan": last["files"][row]})
    assert status == 400 and "device" in text, text


def check_wrong(server):
    """Each is an error that says what is wrong; none is answered with a plan."""
    for request, word in (
            ({**SEARCH, "model": "vgg61"}, "unknown model"), ({**SEARCH, "model": ""}, "model"),
            ({**SEARCH, "cluster": "4xV001"}, "V100"), ({**SEARCH, "minibatch": 0}, "minibatch"),
            ({**SEARCH, "minibatch": 1 << 40}, "minibatch"), ({**SEARCH, "minibatch": "x"}, "minibatch"),
            ({**SEARCH, "microbatches": [5]}, "divide"), ({**SEARCH, "microbatches": 4}, "microbatches"),
            ({**SEARCH, "microbatches": [1] * 9}, "microbatch"), ({**SEARCH, "memory": "much"}, "much"),
            ({**SEARCH, "planners": ["bapip"]}, "bapipe"), ({**SEARCH, "planners": []}, "planner"),
            ({**SEARCH, "methods": ["synch"]}, "sync"), ({**SEARCH, "methods": []}, "method"),
            ({**SEARCH, "more": 1}, "more"), ({}, "model"), ([], "object"), (7, "object"),
            ({**SEARCH, "model": "gpt:" + "x" * 400}, "characters"),
            ({**SEARCH, "cluster": "1000000xV100"}, "")):
        status, text = server.post("/compare", request)
        assert status == 400, (request, status, text[:200])
        assert word in json.loads(text)["error"], (request, text)
    for text in "", "{", "\0", "[" * 100_000, '{"model": "\xff"}':
        status, answer = server.post("/compare", text)
        assert status == 400 and json.loads(answer)["error"], (text[:20], answer)
    for plan in None, 3, {}, {"format": "pipewright/plan"}, []:
        status, text = server.post("/report", {**PROBLEM, "plan": plan})
        assert status == 400 and json.loads(text)["error"], text


def check_files(server, folder):
    """Only files that were named are read; nothing tells whether others exist."""
    for name in "/etc/passwd", "../../../../etc/passwd", "named.json/../secret.json", "secret.json", \
            "./named.json", "/proc/self/mem", "~/x", "named.json\0":
        for key in "model", "cluster":
            status, text = server.post("/compare", {**SEARCH, key: name})
            _, missing = server.post("/compare", {**SEARCH, key: name.replace("e", "3")})
            assert status == 400 and "root:" not in text and "secret content" not in text, text
            assert text.replace(name, "").count("exist") == missing.count("exist"), (text, missing)
    for path in "/etc/passwd", "/../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", \
            "/run/0", "/named.json", "//", "/compare", "/report":
        status, text = server.get(path)
        assert status == (400 if path == "/run/0" else 404) and "root:" not in text, (path, status, text)
    lines = rankings(server, {**SEARCH, "cluster": "named.json", "planners": ["uniform"]})
    assert "--cluster named.json" in lines[-1]["commands"][0]


def check_foreign(server):
    """Requests that another site could make a browser send."""
    own = f"127.0.0.1:{server.port}"
    for headers in ({"Host": f"evil.example:{server.port}"}, {"Host": "evil.example"}, {"Host": ""},
                    {"Host": own, "Origin": "http://evil.example"}, {"Host": own, "Origin": "null"},
                    {"Host": own, "Origin": f"http://127.0.0.1:{server.port + 1}"},
                    {"Host": own, "Sec-Fetch-Site": "cross-site"},
                    {"Host": own, "Sec-Fetch-Site": "same-site"}):
        for path, body in (("/", None), ("/compare", SEARCH), ("/report", PROBLEM)):
            status, text = server.send("POST" if body else "GET", path, body, headers)
            assert status == 403, (headers, path, status, text[:200])
    for kind in "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "":
        status, _ = server.send("POST", "/compare", SEARCH, {"Content-Type": kind})
        assert status == 415, kind
    for method in "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW":
        status, _ = server.send(method, "/compare", None)
        assert status in (400, 405), (method, status)
    for host in own, f"localhost:{server.port}":
        status, _ = server.send("GET", "/", None, {"Host": host, "Origin": f"http://{host}"})
        assert status == 200, host


def raw(server, data, wait=5):
    """The first line of the answer to bytes as they are; "" if there is none."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as connection:
        try:
            connection.sendall(data)
            return connection.recv(100).split(b"\r\n")[0].decode()
        except OSError:
            return ""


def check_huge(server):
    """Bodies, headers and addresses without end are cut off; bombs are not unpacked."""
    host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    kind = b"Content-Type: application/json\r\n"
    status, text = server.post("/compare", "x" * (1 << 21))
    assert status == 413, (status, text[:100])
    for data in (b"GET /" + b"a" * (3 << 20), b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (1 << 19),
                 b"GET / HTTP/1.1\r\nX: " + b"y" * (3 << 20), b"\0" * 4096 + b"\r\n\r\n",
                 b"POST /compare HTTP/1.1\r\n" + host + kind + b"Transfer-Encoding: chunked\r\n\r\n" +
                 b"10000\r\n" + b"z" * 0x10000 + b"\r\n" * 1, b"\r\n" * 1000, b"GET\r\n\r\n",
                 b"POST /compare HTTP/1.1\r\n" + host + kind + b"Content-Length: -5\r\n\r\n{}",
                 b"POST /compare HTTP/1.1\r\n" + host + kind + b"Content-Length: 99999999999999999999\r\n\r\n{}"):
        line = raw(server, data, 15)
        assert not line or line.split()[1] in ("400", "403", "404", "413", "414", "415"), line
    bomb = gzip.compress(b" " * (1 << 26))
    status, _ = server.send("POST", "/compare", bomb, {"Content-Encoding": "gzip"})
    assert status == 415, status
    ranges = "bytes=" + ",".join("0-" for _ in range(1000))
    status, _ = server.send("GET", "/", None, {"Range": ranges})
    assert status in (200, 400, 416), status


def check_slow(server):
    """Many viewers that send a byte now and then do not keep others out."""
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(40)]
    for connection in slow:
        connection.sendall(b"GET / HT")
    status, _ = server.get("/", timeout=60)
    assert status == 200
    # A viewer that has never sent its request is given up on, byte by byte or not.
    start = time.monotonic()
    with slow[0] as connection:
        connection.settimeout(1)
        while time.monotonic() - start < 60:
            try:
                connection.sendall(b"T")
                if not connection.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            raise AssertionError("a slow viewer holds its connection for ever")
    for connection in slow[1:]:
        connection.close()


def hard_search(server):
    """A connection that waits for a search of many seconds."""
    body = json.dumps({**SEARCH, "model": "gpt:layers=400", "cluster": "8x8xV100@nvlink/10GbE",
                       "minibatch": 512, "microbatches": [], "planners": ["auto"]})
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/compare", body, {"Content-Type": "application/json"})
    return connection


def processor_seconds(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")")[-1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until(condition, what):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(what)


def check_unwanted(server):
    """A search whose viewer hung up ends: the processor rests."""
    before = processor_seconds(server)
    connections = [hard_search(server) for _ in range(3)]
    wait_until(lambda: processor_seconds(server) > before + 0.1, "no search began")
    for connection in connections:
        connection.close()

    def is_at_rest():
        used = processor_seconds(server)
        time.sleep(0.3)
        return processor_seconds(server) - used < 0.05
    wait_until(is_at_rest, "an unwanted search goes on")


def check_end(binary, number):
    """A signal during a search: exit code 0, and the port is free again."""
    with Server(binary) as server:
        connection = hard_search(server)
        wait_until(lambda: processor_seconds(server) > 0.1, "no search began")
        server.process.send_signal(number)
        assert server.process.wait(30) == 0
        connection.close()
        with Server(binary, "--port", str(server.port)) as again:
            assert again.get("/")[0] == 200


def check_growing(binary, folder):
    """A run folder whose files grow, are cut off and written anew, in random order: what was read
    bit by bit equals what is read at once."""
    run = pathlib.Path(folder) / "growing"
    shutil.copytree(pathlib.Path(__file__).parent / "recorded-run", run,
                    ignore=shutil.ignore_patterns("profile.json"))  # the plan is not explained 30 times
    random = Random(7)
    numbers = {}

    def lines_of(name, step):
        # The same step trained again takes another time.
        if name == "metrics.jsonl":
            return json.dumps({"step": step, "loss": random.random(), "rate": 0.1, "step_seconds": random.random()})
        return json.dumps({"step": step, "steps": 99, "busy": [random.random()], "memory_bytes": [step],
                           "rates": [0.1], "staleness": [0]})
    with Server(binary, "growing", folder=folder) as server:
        for turn in range(30):
            for name in "metrics.jsonl", "pieces.jsonl":
                lines = numbers.setdefault(name, [])
                del lines[random.randrange(len(lines) + 1) if random.random() < 0.4 else len(lines):]
                lines += [lines_of(name, len(lines) + i + 1) for i in range(random.randrange(4))]
                rest = '{"step": 1' if random.random() < 0.3 else ""  # being written
                (run / name).write_text("".join(line + "\n" for line in lines) + rest)
            status, text = server.get("/run/0")
            assert status == 200, text
            served = json.loads(text)
            done = subprocess.run([binary, "report", "growing", "--json"], cwd=folder, text=True,
                                  capture_output=True, check=True)
            assert served["run"] == json.loads(done.stdout)["run"], turn
            again = json.loads(server.get(f"/run/0?seen={served['version']}")[1])
            assert again == {"version": served["version"]}, again
        (run / "metrics.jsonl").write_text('{"step": "x"}\n')
        assert server.get("/run/0")[0] == 400
        (run / "metrics.jsonl").write_text("")
        assert server.get("/run/0")[0] == 200


def check_token(binary):
    token = "a-token-of-16-or-more"
    with Server(binary, "--token", token) as server:
        assert server.get("/")[0] == 403 and server.get("/?token=" + token[:-1])[0] == 403
        assert server.get("/?token=" + token)[0] == 200
        assert server.post("/compare", SEARCH)[0] == 403
        own = {"Authorization": f"Bearer {token}"}
        assert server.send("POST", "/compare", SEARCH, own)[0] == 200
        foreign = {**own, "Origin": "http://evil.example"}
        assert server.send("POST", "/compare", SEARCH, foreign)[0] == 403
    with Server(binary, "--host", "0.0.0.0") as server:
        assert "?token=" in server.address and server.get("/")[0] == 403
        assert server.get("/" + server.address.split("/")[-1])[0] == 200


def check_start(binary, folder):
    """What cannot start says why."""
    with Server(binary) as server:
        for code, word, arguments in (
                (69, "--port", ["--port", str(server.port)]), (69, "--port", ["--host", "203.0.113.7"]),
                (2, "16", ["--token", "short"]), (2, "16", ["--token", "a token with spaces"]),
                (2, "port", ["--port", "70000"]), (66, "missing.json", ["--cluster", "missing.json"])):
            done = subprocess.run([binary, "serve", *arguments], cwd=folder, text=True,
                                  capture_output=True, timeout=60, check=False)
            assert done.returncode == code and word in done.stderr + done.stdout, done


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    if not has_server(binary):
        print("skipped: this build has no HTTP server (tools/setup core installs cpp-httplib)")
        return
    with tempfile.TemporaryDirectory(prefix="pipewright-serve-") as folder:
        (pathlib.Path(folder) / "secret.json").write_text("secret content")
        subprocess.run([binary, "cluster", "4xV100@1GB/s", "-o", "named.json"], cwd=folder, check=True,
                       capture_output=True)
        with Server(binary, "--cluster", "named.json", folder=folder) as server:
            last = check_search(server, binary, folder)
            check_report(server, last, binary, folder)
            check_wrong(server)
            check_files(server, folder)
            check_foreign(server)
            check_huge(server)
            check_slow(server)
            check_unwanted(server)
            assert rankings(server, SEARCH)[-1]["answered"] == 3
            text = server.get("/")[1]
            assert "connect-src 'self'" in text and "default-src 'none'" in text
        assert server.process.returncode == 0 and not server.errors(), server.errors()
        check_growing(binary, folder)
        check_token(binary)
        check_start(binary, folder)
        check_end(binary, signal.SIGINT)
        check_end(binary, signal.SIGTERM)
    print("right requests are answered, wrong ones refused")


if __name__ == "__main__":
    main()
