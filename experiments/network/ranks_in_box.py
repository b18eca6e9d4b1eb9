"""Training in a box: a rank per worker, on the host of the worker's device.

mpirun runs on the root switch and reaches hosts through an agent that enters
their namespaces, as it would by ssh.
"""

import json
import shlex
import subprocess

from call_failed import NO_ANSWER, CallFailed

# Above this size Open MPI asks before it sends, and the answer queues behind
# what goes the other way: docs/reference/ranks.md, "Several hosts".
EAGER = 1 << 22
TIME_LIMIT_S = 600
SETTINGS = {
    "btl": "tcp,self", "btl_tcp_eager_limit": EAGER,
    "btl_tcp_rndv_eager_limit": EAGER, "rmaps_base_oversubscribe": 1,
    "hwloc_base_binding_policy": "none",
    # MPI's own sums (--fast-reduce) go around a ring, as they are predicted.
    "coll_libnbc_iallreduce_algorithm": 1,
}


def hosts_of(plan, box):
    """The host of each worker: device i is on host i."""
    devices = json.loads(plan.read_text())["devices"]
    return [box.hosts[device] for device in devices]


def write_agent(box, folder):
    agent = folder / "agent"
    cases = "\n".join(
        f'  {box.addresses[host]}) exec '
        f'{shlex.join(box.command(host, ["sh", "-c"]))} "$*" ;;'
        for host in box.hosts)
    agent.write_text(f"""#!/bin/sh
address=$1; shift
case $address in
{cases}
esac
echo "no host $address in this box" >&2
exit 1
""")
    agent.chmod(0o755)
    return agent


def launcher(box, folder):
    """The beginning of a command line that starts ranks in a box."""
    settings = dict(SETTINGS, plm_rsh_agent=write_agent(box, folder),
                    btl_tcp_if_include=box.subnet,
                    oob_tcp_if_include=box.subnet)
    line = ["mpirun", "--allow-run-as-root"]
    for name, value in settings.items():
        line += ["--mca", name, value]
    return box.launcher(line)


def place(box, host):
    """What says that a rank is on a host."""
    return ["--host", box.addresses[host]]


def train(box, folder, pipewright, plan, run, *options):
    """Trains a plan, and returns what the run's summary says."""
    line = launcher(box, folder)
    for rank, host in enumerate(hosts_of(plan, box)):
        line += [":"] * (rank > 0) + ["-n", 1, *place(box, host), pipewright,
                                      "train", plan, "--run", run, *options]
    try:
        done = subprocess.run(list(map(str, line)), capture_output=True,
                              text=True, check=False, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise CallFailed(f"train {plan}", f"more than {TIME_LIMIT_S} s",
                         NO_ANSWER) from error
    if done.returncode != 0:
        raise CallFailed(f"train {plan}", done.stdout + done.stderr,
                         done.returncode)
    return json.loads((run / "summary.json").read_text())
