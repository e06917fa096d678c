"""A plain TCP sender and receiver for the nodes of an emulated cluster; also a script that runs as either of them."""

import json
import socket
import subprocess
import sys
import time

WARM = 0.5  # seconds in which bursts and slow start do not count


def receive(port):
    with socket.create_server(("0.0.0.0", int(port))) as server:
        print("ready", flush=True)
        connection, _ = server.accept()
        buffer = memoryview(bytearray(1 << 18))
        begun = time.monotonic()
        counted, since, last = 0, None, begun
        while count := connection.recv_into(buffer):
            last = time.monotonic()
            if since is not None:
                counted += count
            elif last - begun >= WARM:
                since = last
    print(json.dumps(8 * counted / (last - since) if since and last > since else 0.0))


def send(address, port, seconds):
    with socket.create_connection((address, int(port)), timeout=10) as connection:
        connection.settimeout(None)
        block = bytes(1 << 16)
        until = time.monotonic() + float(seconds)
        while time.monotonic() < until:
            connection.sendall(block)


def rates(layout, flows, seconds=0.5):
    """Return bits per second of payload, one for each (sender, receiver) of ``flows``, all at the same time."""
    receivers = [start(layout, to, "receive", 5000 + at) for at, (_, to) in enumerate(flows)]
    senders = []
    try:
        for receiver in receivers:
            assert receiver.stdout.readline() == "ready\n"
        senders = [
            start(layout, of, "send", layout.node(to).address, 5000 + at, seconds + WARM)
            for at, (of, to) in enumerate(flows)
        ]
        return [float(receiver.communicate(timeout=seconds + 30)[0]) for receiver in receivers]
    finally:
        for process in (*senders, *receivers):
            process.kill()
            process.wait()
            process.stdout.close()


def answer(port):
    with socket.create_server(("0.0.0.0", int(port))) as server:
        print("ready", flush=True)
        connection, _ = server.accept()
        with connection:
            connection.sendall(connection.recv(1))


def ask(address, port, timeout):
    with socket.create_connection((address, int(port)), timeout=float(timeout)) as connection:
        connection.sendall(b"x")
        raise SystemExit(connection.recv(1) != b"x")


def reaches(layout, of, to, timeout=1.0):
    """Return whether a byte gets from one node to another and back within a time."""
    server = start(layout, to, "answer", 4999)
    try:
        assert server.stdout.readline() == "ready\n"
        client = start(layout, of, "ask", layout.node(to).address, 4999, timeout, stderr=subprocess.DEVNULL)
        with client.stdout:
            return client.wait(timeout + 10) == 0
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def start(layout, node, *words, **options):
    """Start this script inside a node."""
    from paceline.cluster.emulate.enter import inside  # not at the top: inside, the script runs without packages

    command = inside(layout.node(node), [sys.executable, "-S", "-E", __file__, *map(str, words)])
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


if __name__ == "__main__":
    {"receive": receive, "send": send, "answer": answer, "ask": ask}[sys.argv[1]](*sys.argv[2:])
