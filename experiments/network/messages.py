"""Messages over one TCP connection, to measure links. Run on the hosts of a box:

    messages.py receive ADDRESS
    messages.py time ADDRESS SIZE COUNT     prints the median seconds of one
    messages.py flood ADDRESS FROM UNTIL    prints the bytes per second

A message is SIZE bytes one way and one byte back; `flood` does not wait for
that byte before it sends the next one, and counts those that come between two
times of the clock, which all hosts of a box share.
"""

import socket
import statistics
import struct
import sys
import threading
import time

PORT = 5401
FLOOD_SIZE = 1 << 13


def read(connection, size):
    while size > 0:
        got = len(connection.recv(min(size, 1 << 16)))
        if got == 0:
            raise EOFError
        size -= got


def answer(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            header = connection.recv(8, socket.MSG_WAITALL)
            if len(header) < 8:
                return
            read(connection, struct.unpack("<q", header)[0])
            connection.sendall(b".")
    except (EOFError, OSError):
        pass


def receive(address):
    with socket.create_server((address, PORT), backlog=64) as server:
        print("ready", flush=True)
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],),
                             daemon=True).start()


def connect(address):
    connection = socket.create_connection((address, PORT), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def message(size):
    return struct.pack("<q", size) + bytes(size)


def time_messages(address, size, count):
    taken, data = [], message(size)
    with connect(address) as connection:
        for _ in range(count + 1):  # the first one opens the window
            begin = time.monotonic()
            connection.sendall(data)
            connection.recv(1)
            taken.append(time.monotonic() - begin)
    print(statistics.median(taken[1:]))


def flood(address, begin, until):
    arrived, data = [], message(FLOOD_SIZE)
    with connect(address) as connection:
        def count():
            while got := connection.recv(64):
                arrived.extend([time.monotonic()] * len(got))
        counter = threading.Thread(target=count, daemon=True)
        counter.start()
        while time.monotonic() < until:
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        counter.join(60)
    within = sum(begin <= at <= until for at in arrived)
    print(within * FLOOD_SIZE / (until - begin))


if __name__ == "__main__":
    {"receive": lambda address: receive(address),
     "time": lambda address, size, count: time_messages(address, int(size),
                                                        int(count)),
     "flood": lambda address, begin, until: flood(address, float(begin),
                                                  float(until)),
     }[sys.argv[1]](*sys.argv[2:])
