#!/usr/bin/env python3
"""Starts ranks that meet without MPI, as torchrun does, but with mpirun's words:

    start_ranks.py -n 2 PROGRAM ... [: -n 1 PROGRAM ...]

Each process is told its RANK, the WORLD_SIZE, and where to meet. All are waited
for, whatever becomes of them; the exit code is the first that is not 0. A signal
that ends this process first goes to them.
"""

import os
import signal
import socket
import subprocess
import sys


def commands(arguments):
    """One for each rank."""
    found, part = [], []
    for word in [*arguments, ":"]:
        if word != ":":
            part.append(word)
            continue
        if part[:1] != ["-n"]:
            sys.exit(__doc__)
        found += [part[2:]] * int(part[1])
        part = []
    return found


def free_port(address):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def main():
    address = os.environ.get("MASTER_ADDR", "127.0.0.1")
    port = os.environ.get("MASTER_PORT") or str(free_port(address))
    started = commands(sys.argv[1:])
    ranks = [subprocess.Popen(command, env=dict(
        os.environ, RANK=str(rank), WORLD_SIZE=str(len(started)),
        MASTER_ADDR=address, MASTER_PORT=port))
        for rank, command in enumerate(started)]

    def pass_on(number, _):
        for each in ranks:
            each.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, pass_on)
    codes = [each.wait() for each in ranks]
    return next((code for code in codes if code != 0), 0)


if __name__ == "__main__":
    code = main()
    sys.exit(code if code >= 0 else 128 - code)
