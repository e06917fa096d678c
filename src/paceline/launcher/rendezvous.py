"""A rendezvous for workers of one machine: a store that this process owns and that listens on loopback only.

torch's own backends open their store on every interface. This one listens on an address of our choice and lives with
the launcher, so it survives any worker.
"""

from __future__ import annotations

import socket
from datetime import timedelta

from torch.distributed import PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    rendezvous_handler_registry,
)

BACKEND = "paceline-loopback"
_LOOPBACK = "127.0.0.1"


class LoopbackRendezvous(RendezvousHandler):
    """One agent on one machine: nobody to wait for."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._attempt = 0
        listener = socket.create_server((_LOOPBACK, 0), backlog=512)
        self._port = listener.getsockname()[1]
        # The store takes the listening socket over and closes it at its end.
        self._store = TCPStore(
            host_name=_LOOPBACK,
            port=self._port,
            world_size=None,
            is_master=True,
            timeout=timedelta(seconds=60),
            wait_for_workers=False,
            multi_tenant=False,
            master_listen_fd=listener.detach(),
            use_libuv=True,
        )
        self._closed = False

    def get_backend(self) -> str:
        """Return the name under which the handler is registered."""
        return BACKEND

    @property
    def use_agent_store(self) -> bool:
        """Workers use the launcher's store: they open none of their own."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Return at once; each attempt has keys of its own."""
        self._attempt += 1
        store = PrefixStore(f"{self._run_id}/{self._attempt}", self._store)
        return RendezvousInfo(store, 0, 1, RendezvousStoreInfo(_LOOPBACK, self._port))

    def is_closed(self) -> bool:
        """Whether the run is over."""
        return self._closed

    def set_closed(self) -> None:
        """Say that the run is over."""
        self._closed = True

    def num_nodes_waiting(self) -> int:
        """There is one machine."""
        return 0

    def get_run_id(self) -> str:
        """Return the run's name."""
        return self._run_id

    def shutdown(self) -> bool:
        """Return True: the store ends with this object."""
        self._closed = True
        return True


def register() -> None:
    """Make the backend known to torch's launcher; calling it again changes nothing."""
    rendezvous_handler_registry.register(BACKEND, _create)


def _create(parameters: RendezvousParameters) -> RendezvousHandler:
    return LoopbackRendezvous(parameters.run_id)
