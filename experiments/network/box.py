"""A cluster in a box: hosts are network namespaces with a name and a share of a
core, joined by switches (bridges) over links with a rate limit in each
direction.

    with Box(topology) as box:
        subprocess.run(box.command("a", ["hostname"]))

All names carry the id of this process. Namespaces and control groups are removed
at the end of the `with` block, however that ends, with all processes in them;
what a killed process left behind is removed by the next box. Nothing here knows
what runs on the hosts.
"""

import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

NETWORK = "10.213.0"
# A queue of this many seconds at each end of a link.
QUEUE = "200ms"
# What a quiet link may send at any speed: less than any message worth timing.
BURST = "16kb"
# A share of a core is granted anew in periods; the kernel grants no less than
# this in one.
PERIOD_US, LEAST_US = 5000, 1000
# Not a host's name (topology.py).
FABRIC = "-fabric"


def cpu_groups():
    """The folder of control groups for shares of a core, or None: version 1, or
    2 if that has the cpu controller."""
    first, second = map(pathlib.Path, ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup"))
    if (first / "cpu.cfs_quota_us").exists():
        return first
    control = second / "cgroup.subtree_control"
    has_cpu = control.exists() and "cpu" in control.read_text().split()
    return second if has_cpu else None


GROUPS = cpu_groups()


class NoBox(Exception):
    """Why there can be no box on this machine."""


def sh(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoBox(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def needed():
    """Raises NoBox where a box cannot be made."""
    if os.geteuid() != 0:
        raise NoBox("network namespaces need root")
    for program in ("ip", "tc", "nsenter", "unshare", "mpirun"):
        if not shutil.which(program):
            raise NoBox(f"{program} is not installed")


def groups():
    return [folder.name for folder in GROUPS.glob("pw*-*")] if GROUPS else []


def remove_group(name):
    """A group can be removed a moment after its last process has ended."""
    for _ in range(50):
        kill((GROUPS / name / "cgroup.procs").read_text().split())
        try:
            (GROUPS / name).rmdir()
            return
        except OSError:
            time.sleep(0.1)


def namespaces():
    return [line.split()[0] for line in sh("ip", "netns", "list").splitlines()
            if line.strip()]


def remove(namespace):
    """A namespace lives until its last process has ended."""
    for _ in range(50):
        pids = subprocess.run(["ip", "netns", "pids", namespace],
                              capture_output=True, text=True,
                              check=False).stdout.split()
        if not pids:
            break
        kill(pids)
        time.sleep(0.1)
    subprocess.run(["ip", "netns", "del", namespace], capture_output=True,
                   check=False)


def kill(pids, number=signal.SIGKILL):
    for pid in pids:
        try:
            os.kill(int(pid), number)
        except ProcessLookupError:
            pass


def remove_all(belongs):
    """Everything whose owner's process id `belongs`."""
    for names, remove_one in ((namespaces, remove), (groups, remove_group)):
        for name in names():
            owner = re.fullmatch(r"pw(\d+)-.*", name)
            if owner and belongs(int(owner[1])):
                remove_one(name)


def remove_stale():
    remove_all(lambda pid: not os.path.exists(f"/proc/{pid}"))


class Box:
    """`topology` as in README.md: hosts, switches and pairs."""

    def __init__(self, topology):
        self.hosts = list(topology["hosts"])
        self.host_links = topology["hosts"]
        self.switches = topology.get("switches", {})
        self.pairs = topology.get("pairs", [])
        self.addresses = {host: f"{NETWORK}.{i + 1}"
                          for i, host in enumerate(self.hosts)}
        self.subnet = f"{NETWORK}.0/24"
        self.root = next(name for name, link in self.switches.items()
                         if not link)

    def namespace(self, host):
        return f"pw{os.getpid()}-{host}"

    @property
    def fabric(self):
        """The namespace of the switches; its own address is on the root."""
        return self.namespace(FABRIC)

    def __enter__(self):
        needed()
        self._signals = {number: signal.signal(number, self._interrupted)
                         for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            remove_stale()
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def _interrupted(number, _):
        raise SystemExit(128 + number)

    def close(self):
        remove_all(lambda pid: pid == os.getpid())
        for number, handler in self._signals.items():
            signal.signal(number, handler)

    def _build(self):
        for name in [FABRIC, *self.hosts]:
            sh("ip", "netns", "add", self.namespace(name))
            sh("ip", "-n", self.namespace(name), "link", "set", "lo", "up")
            sh(*entered(self.namespace(name)), "sysctl", "-q",
               "net.ipv4.tcp_congestion_control=reno")
        for host in self.hosts:
            if "share" in self.host_links[host]:
                self.set_share(host, self.host_links[host]["share"])
        for switch in self.switches:
            self._ip("link", "add", f"sw-{switch}", "type", "bridge")
            self._ip("link", "set", f"sw-{switch}", "up")
        self._ip("addr", "add", f"{NETWORK}.254/24", "dev", f"sw-{self.root}")
        for switch, link in self.switches.items():
            if link:
                self._join_switch(switch, link)
        for host, link in self.host_links.items():
            self._join_host(host, link)
        for pair in self.pairs:
            self.set_pair(*pair["between"], pair["rate"])

    def _ip(self, *arguments):
        sh("ip", "-n", self.fabric, *arguments)

    def _join_switch(self, switch, link):
        up, down = f"up-{switch}", f"down-{switch}"
        self._ip("link", "add", up, "type", "veth", "peer", "name", down)
        for end, bridge in ((up, switch), (down, link["to"])):
            self._ip("link", "set", end, "master", f"sw-{bridge}", "up")
            limit(self.fabric, end, link["rate"])

    def _join_host(self, host, link):
        there, here = self.namespace(host), f"to-{host}"
        sh("ip", "link", "add", "eth0", "netns", there, "type", "veth", "peer",
           "name", here, "netns", self.fabric)
        sh("ip", "-n", there, "addr", "add", f"{self.addresses[host]}/24",
           "dev", "eth0")
        # Packets of the usual size, as a card sends them: rates hold for each.
        sh("ip", "-n", there, "link", "set", "eth0", "up", "gso_max_segs", "1")
        self._ip("link", "set", here, "master", f"sw-{link['switch']}", "up")
        self.set_rate(host, link["rate"])
        if any(host in pair["between"] for pair in self.pairs):
            self._limit_by_pair(there, link["rate"])

    def _limit_by_pair(self, there, rate):
        """Classes below the card's rate, one per other host (set_pair)."""
        tc(there, "qdisc", "del", "dev", "eth0", "root")
        tc(there, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb",
           "default", "999")
        for number in ("1", "999"):
            tc(there, "class", "add", "dev", "eth0", "parent",
               "1:" if number == "1" else "1:1", "classid", f"1:{number}",
               "htb", "rate", rate, "burst", BURST, "cburst", BURST)

    def set_pair(self, one, other, rate):
        """Limits what goes between two hosts, in each direction."""
        for host, peer in ((one, other), (other, one)):
            there, number = self.namespace(host), 10 + self.hosts.index(peer)
            tc(there, "class", "add", "dev", "eth0", "parent", "1:1",
               "classid", f"1:{number}", "htb", "rate", rate, "burst", BURST,
               "cburst", BURST)
            tc(there, "filter", "add", "dev", "eth0", "parent", "1:",
               "protocol", "ip", "u32", "match", "ip", "dst",
               f"{self.addresses[peer]}/32", "flowid", f"1:{number}")

    # What happens to hosts and links during a run.
    def cut(self, host):
        self._ip("link", "set", f"to-{host}", "down")

    def join(self, host):
        self._ip("link", "set", f"to-{host}", "up")

    def set_rate(self, host, rate):
        """Of a host without limits by pair."""
        limit(self.fabric, f"to-{host}", rate)
        limit(self.namespace(host), "eth0", rate)

    def pids(self, host):
        return sh("ip", "netns", "pids", self.namespace(host)).split()

    def set_share(self, host, share):
        """The share of a core that all processes of a host have together."""
        if not GROUPS:
            raise NoBox("no control groups for shares of a core")
        group = GROUPS / self.namespace(host)
        group.mkdir(exist_ok=True)
        period = max(PERIOD_US, math.ceil(LEAST_US / share))
        quota = round(share * period)
        # Before other programs of this machine: the share is there when asked.
        if (group / "cpu.max").exists():
            (group / "cpu.weight").write_text("10000")
            (group / "cpu.max").write_text(f"{quota} {period}")
            return
        (group / "cpu.shares").write_text("100000")
        (group / "cpu.cfs_period_us").write_text(str(period))
        (group / "cpu.cfs_quota_us").write_text(str(quota))

    def command(self, host, command):
        """As run on a host, which has its own name."""
        enter = f'hostname {host} && exec "$@"'
        if GROUPS and (GROUPS / self.namespace(host)).exists():
            procs = GROUPS / self.namespace(host) / "cgroup.procs"
            enter = f"echo $$ > {procs} && {enter}"
        return [*entered(self.namespace(host)), "unshare", "--uts", "sh", "-c",
                enter, "sh", *map(str, command)]

    def launcher(self, command):
        """As run on the root switch, from which no link is slow."""
        return [*entered(self.fabric), *map(str, command)]

    def path(self, one, other):
        """The links from a host to another, as (name, direction)."""
        def ups(host):
            found, switch = [(host, "up")], self.host_links[host]["switch"]
            while self.switches[switch]:
                found.append((switch, "up"))
                switch = self.switches[switch]["to"]
            return found
        there, back = ups(one), ups(other)
        while len(there) > 1 and len(back) > 1 and there[-1] == back[-1]:
            there.pop()
            back.pop()
        return there + [(name, "down") for name, _ in reversed(back)]


def entered(namespace):
    """Unlike `ip netns exec` this leaves /sys, with its control groups, alone."""
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def tc(namespace, *arguments):
    sh("tc", "-n", namespace, *arguments)


def limit(namespace, interface, rate):
    tc(namespace, "qdisc", "replace", "dev", interface, "root", "tbf", "rate",
       rate, "burst", BURST, "latency", QUEUE)
