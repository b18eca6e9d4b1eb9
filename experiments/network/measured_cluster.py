"""The cluster file of a box, from what is measured on its links.

Every pair of hosts is a link: its latency, and its rate by message size. What
several links share (a host's card, the way between two switches) is a resource,
with the rate that all of them reach together.
"""

import contextlib
import itertools
import pathlib
import subprocess
import sys
import time

from call_failed import CallFailed

MESSAGES = pathlib.Path(__file__).with_name("messages.py")
SIZES = (1 << 15, 1 << 17, 1 << 20)
START_SECONDS, FLOOD_SECONDS = 1, 2


@contextlib.contextmanager
def receivers(box):
    started = []
    try:
        for host in box.hosts:
            started.append(subprocess.Popen(
                box.command(host, [sys.executable, MESSAGES, "receive",
                                   box.addresses[host]]),
                stdout=subprocess.PIPE, text=True))
        for process in started:
            process.stdout.readline()
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextlib.contextmanager
def whole_cores(box):
    for host in box.hosts:
        box.set_share(host, 1)
    yield
    for host in box.hosts:
        box.set_share(host, box.host_links[host].get("share", 1))


def send(box, host, what, peer, *arguments):
    return subprocess.Popen(
        box.command(host, [sys.executable, MESSAGES, what, box.addresses[peer],
                           *arguments]), stdout=subprocess.PIPE, text=True)


def answer(process):
    text = process.communicate(timeout=120)[0]
    if process.returncode != 0:
        raise CallFailed("a link could not be measured", text,
                         process.returncode)
    return float(text)


def link(box, one, other):
    """The link between two hosts: a message waits for its answer, so a latency
    each way is not on the wire."""
    latency = answer(send(box, one, "time", other, 1, 50)) / 2
    rates = []
    for size in SIZES:
        seconds = answer(send(box, one, "time", other, size, 5))
        rates.append([size, size / max(seconds - 2 * latency, 1e-6)])
    return {"from": one, "to": [other], "latency": latency, "rates": rates,
            "bandwidth": max(rate for _, rate in rates)}


def shared_rate(box, crossing):
    """What all pairs of hosts that cross a place reach together."""
    begin = time.monotonic() + START_SECONDS
    flows = [send(box, one, "flood", other, begin, begin + FLOOD_SECONDS)
             for one, other in crossing]
    return sum(answer(flow) for flow in flows)


def crossings(box):
    """The pairs that send over each shared place, upward."""
    found = {}
    for one, other in itertools.permutations(box.hosts, 2):
        for name, direction in box.path(one, other):
            if direction == "up":
                found.setdefault(name, []).append((one, other))
    return found


def measured_cluster(box, name, kind):
    """One device per host, of the kind. While links are measured, hosts have
    all of their core."""
    with receivers(box), whole_cores(box):
        links = [link(box, one, other)
                 for one, other in itertools.combinations(box.hosts, 2)]
        resources = {place: shared_rate(box, pairs)
                     for place, pairs in crossings(box).items()}
    for entry in links:
        entry["uses"] = [
            {"resource": place, "direction": direction} for place, direction
            in box.path(entry["from"], entry["to"][0])]
    return {
        "format": "pipewright/cluster", "version": 1, "name": name,
        "kinds": [kind],
        "devices": [{"kind": kind["name"], "host": i, "name": host}
                    for i, host in enumerate(box.hosts)],
        "resources": [{"name": place, "bandwidth": rate}
                      for place, rate in resources.items()],
        "links": links}
