"""Reads a topology file (README.md) and says what is wrong with it."""

import json
import re

RATE = re.compile(r"[1-9]\d{0,5}[kmg]bit")
NAME = re.compile(r"[a-z][a-z0-9]{0,7}")  # part of an interface's name
MOST_HOSTS = 16


class BadTopology(Exception):
    """What is wrong, with the file and the key."""


def read_topology(file):
    try:
        topology = json.loads(file.read_text(encoding="utf-8"))
        require(isinstance(topology, dict), "is not an object")
        check_keys(topology, "the file", {"name", "training", "switches",
                                          "hosts"}, {"pairs"})
        check_training(topology["training"])
        check_switches(topology["switches"])
        check_hosts(topology["hosts"], topology["switches"])
        check_pairs(topology.get("pairs", []), topology["hosts"])
        return topology
    except (OSError, ValueError, BadTopology) as error:
        raise BadTopology(f"{file}: {error}") from error
    except TypeError as error:  # a list or an object in the place of a name
        raise BadTopology(f"{file}: a value of the wrong type: {error}") from error


def require(holds, what):
    if not holds:
        raise BadTopology(what)


def check_keys(entry, where, needed, allowed=frozenset()):
    require(isinstance(entry, dict), f"{where} is not an object")
    missing, unknown = needed - entry.keys(), entry.keys() - needed - allowed
    require(not missing, f"{where} lacks {', '.join(sorted(missing))}")
    require(not unknown, f"{where} has unknown keys: "
            f"{', '.join(sorted(unknown))}")


def check_rate(rate, where):
    require(isinstance(rate, str) and RATE.fullmatch(rate),
            f"{where} has the rate {rate!r}; a rate is like 20mbit")


def check_names(names, where):
    for name in names:
        require(NAME.fullmatch(name), f"{where}: {name!r} is not a name of up to "
                "8 small letters and digits")


def check_training(training):
    check_keys(training, "training", {"model", "microbatch", "minibatch"},
               {"planners"})
    for key in ("microbatch", "minibatch"):
        require(isinstance(training[key], int) and training[key] > 0,
                f"training: {key} is not a positive number")
    require(training["microbatch"] % 4 == 0
            and training["minibatch"] % training["microbatch"] == 0,
            "training: the microbatch is not a multiple of 4 that divides the "
            "minibatch")


def check_switches(switches):
    require(isinstance(switches, dict), "switches is not an object")
    check_names(switches, "switches")
    roots = [name for name, link in switches.items() if link is None]
    require(len(roots) == 1, f"switches: {len(roots)} roots (null), not one")
    for name, link in switches.items():
        if link is None:
            continue
        check_keys(link, f"switch {name}", {"to", "rate"})
        check_rate(link["rate"], f"switch {name}")
        above = name
        for _ in switches:
            above = (switches.get(above) or {"to": above}).get("to")
        require(above in roots, f"switch {name} does not lead to the root")


def check_hosts(hosts, switches):
    require(isinstance(hosts, dict) and 2 <= len(hosts) <= MOST_HOSTS,
            f"hosts is not an object of 2 to {MOST_HOSTS}")
    check_names(hosts, "hosts")
    for name, link in hosts.items():
        check_keys(link, f"host {name}", {"switch", "rate", "share"})
        check_rate(link["rate"], f"host {name}")
        require(link["switch"] in switches,
                f"host {name} is at the unknown switch {link['switch']!r}")
        share = link["share"]
        require(isinstance(share, (int, float)) and 0.01 <= share <= 1,
                f"host {name} has the share {share!r}, not 0.01 to 1")


def check_pairs(pairs, hosts):
    require(isinstance(pairs, list), "pairs is not a list")
    seen = set()
    for pair in pairs:
        check_keys(pair, "a pair", {"between", "rate"})
        between = pair["between"]
        require(isinstance(between, list) and len(between) == 2
                and len({*between} & hosts.keys()) == 2,
                f"the pair {between!r} is not two hosts")
        require(frozenset(between) not in seen, f"the pair {between} is twice")
        seen.add(frozenset(between))
        check_rate(pair["rate"], f"the pair {between}")
