"""Workers in the hosts of an emulated cluster: one process imports torch once, then forks a worker for every device.

``python -m paceline.launcher.hatch ORDERS`` is started by the launcher, which holds its standard input: when the
launcher goes, however it goes, the input ends and so does everything here. A store for the workers' rendezvous is a
child of its own on the cluster's network, so it survives any worker. The last line of the standard output says how each
worker ended.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from paceline.launcher.orphan import die_with_parent

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

_POLL = 0.02
_GRACE = 3.0  # seconds that workers have to end when one of them has failed


@dataclass(frozen=True, slots=True)
class Post:
    """A worker's place: its namespace, what it finds in its environment, where it writes."""

    rank: int
    namespace: str  # a path such as /run/netns/pl-lab-host0
    environment: dict[str, str]
    logs: str


@dataclass(frozen=True, slots=True)
class Orders:
    """What is to be hatched: a module whose ``main(arguments)`` every worker calls, and the store's place."""

    module: str
    arguments: list[str]
    store_namespace: str
    store_address: str
    posts: list[Post]

    def to_json(self) -> dict[str, Any]:
        """Return the orders as the hatch reads them."""
        return asdict(self)


def main(path: Path) -> int:
    """Hatch what the file orders, wait for the end, and print how each worker ended."""
    data = json.loads(path.read_text(encoding="utf-8"))
    orders = Orders(**{**data, "posts": [Post(**post) for post in data["posts"]]})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    module = importlib.import_module(orders.module)  # torch and all: once, for every worker
    port, store = _fork_store(orders)
    variables = {
        "WORLD_SIZE": str(len(orders.posts)),
        "MASTER_ADDR": orders.store_address,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    living: dict[int, int] = {}
    for post in orders.posts:
        pid = os.fork()
        if pid == 0:
            _be_worker(post, variables, module, orders.arguments)
        living[pid] = post.rank
    ended = _wait(living)
    os.kill(store, signal.SIGKILL)
    print(json.dumps({"ended": ended}), flush=True)
    return 0


def _enter(namespace: str) -> None:
    """Enter a network namespace; Python's os.setns came with 3.12."""
    descriptor = os.open(namespace, os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, 0x40000000) != 0:  # CLONE_NEWNET
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), namespace)
    os.close(descriptor)


def _fork_store(orders: Orders) -> tuple[int, int]:
    """Start the store on the cluster's network and return its port and its process."""
    mine, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            die_with_parent()
            os.close(mine)
            _enter(orders.store_namespace)
            _keep_store(orders.store_address, theirs)
        finally:
            os._exit(1)
    os.close(theirs)
    with os.fdopen(mine) as pipe:
        text = pipe.readline()
    if not text.strip():
        raise RuntimeError("the store for the workers' rendezvous could not be opened on the cluster's network")
    return int(text), pid


def _keep_store(address: str, port_to: int) -> NoReturn:
    from datetime import timedelta

    from torch.distributed import TCPStore

    listener = socket.create_server((address, 0), backlog=512)
    port = listener.getsockname()[1]
    store = TCPStore(
        host_name=address,
        port=port,
        world_size=None,
        is_master=True,
        timeout=timedelta(seconds=60),
        wait_for_workers=False,
        multi_tenant=False,
        master_listen_fd=listener.detach(),
        use_libuv=True,
    )
    os.write(port_to, f"{port}\n".encode())
    os.close(port_to)
    while store is not None:
        signal.pause()
    raise AssertionError


def _be_worker(post: Post, variables: dict[str, str], module: Any, arguments: list[str]) -> NoReturn:
    code = 1
    try:
        die_with_parent()
        os.setpgid(0, 0)
        Path(post.logs).mkdir(parents=True, exist_ok=True)
        for name, descriptor in (("stdout.log", 1), ("stderr.log", 2)):
            file = os.open(Path(post.logs) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(file, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _enter(post.namespace)
        os.environ.update(variables | post.environment)
        code = module.main(arguments)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(living: dict[int, int]) -> list[dict[str, float]]:
    """Wait for all workers; when one fails, or the launcher is gone, end the others."""
    ended: list[dict[str, float]] = []
    hurried = 0.0
    while living:
        while living and (found := os.waitpid(-1, os.WNOHANG))[0]:
            rank = living.pop(found[0], None)
            if rank is None:
                continue  # the store: workers will notice, and say what they missed
            code = os.waitstatus_to_exitcode(found[1])
            ended.append({"rank": rank, "code": code, "when": time.time()})
            if code != 0 and not hurried:
                hurried = time.monotonic()
                _signal(living, signal.SIGTERM)
        if hurried and time.monotonic() - hurried > _GRACE:
            _signal(living, signal.SIGKILL)
        if living and _launcher_gone():
            _signal(living, signal.SIGKILL)
            hurried = hurried or time.monotonic()
    return ended


def _launcher_gone() -> bool:
    """Wait a moment, and return whether the launcher has let go of our standard input."""
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], _POLL)
    return bool(readable) and not os.read(sys.stdin.fileno(), 1)


def _signal(living: dict[int, int], number: signal.Signals) -> None:
    for pid in living:
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
