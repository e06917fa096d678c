"""What the ranks of a probe do: time messages between pairs, and collectives over groups, in this machine's seconds.

Every rank calls the same functions in the same order; who times broadcasts what it found, so that all of them end with
all figures. Tensors live on the device that the library moves: a CPU's memory for Gloo, a GPU's for NCCL.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

_FLOAT = 4
_WARM_UP = 2
_LEAST, _MOST = 3, 200  # repeats
_PING = 64  # round trips behind a latency
_LARGE = 0.12  # seconds that a message should take to tell a bandwidth
_LARGEST = 64 << 20  # bytes
FIRST_MESSAGE = 1 << 18
_PARTS = 16  # of a flow under load


class Prober:
    """One rank's part of a probe."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.device = device

    def pair(self, first: int, second: int) -> dict[str, float]:
        """Return latency, bytes per second one way and both ways at once, and the bytes that told them."""
        times = sorted(self._timed(self._ping(first, second, _FLOAT), first, (first, second), most=_PING))
        latency = times[len(times) // 2] / 2
        size = FIRST_MESSAGE
        while True:
            seconds = statistics.median(self._timed(self._ping(first, second, size), first, (first, second), _LEAST))
            if seconds / 2 > _LARGE or size >= _LARGEST:
                break
            size *= 4
        repeats = 5
        back = statistics.median(self._timed(self._ping(second, first, size), second, (first, second), repeats))
        there = statistics.median(self._timed(self._ping(first, second, size), first, (first, second), repeats))
        both = statistics.median(self._timed(self._cross(first, second, size), first, (first, second), repeats))
        return {
            "first": first,
            "second": second,
            "latency": latency,
            # A ping-pong's halves cannot be told apart by one clock: there and back are one figure.
            "bytes_per_second": size / max((there + back) / 4 - latency, 1e-9),
            "both_bytes_per_second": size / max(both - latency, 1e-9),
            "bytes": size,
            "spread": (times[len(times) * 3 // 4] - times[len(times) // 4]) / max(times[len(times) // 2], 1e-9),
        }

    def collectives(self, name: str, ranks: int, sizes: Sequence[int], longest: float, seconds: float) -> Iterator[Any]:
        """Yield {"bytes", "seconds", "spread"} of a collective over the first ``ranks`` ranks, by size.

        Sizes end where one call takes more than ``longest`` seconds; each gets about ``seconds``.
        """
        members = tuple(range(ranks))
        group = dist.new_group(members)  # every rank has to ask for it
        for size in sizes:
            once = COLLECTIVES[name](size, self.device, group, ranks, self.rank) if self.rank in members else _nothing
            times = self._timed(once, 0, members, _MOST, seconds, group)
            middle = statistics.median(times)
            quarter, three = statistics.quantiles(times, n=4)[::2] if len(times) > 1 else (middle, middle)
            yield {"bytes": size, "seconds": middle, "spread": (three - quarter) / middle / 1.35}
            if middle > longest:
                break

    def together(self, flows: Sequence[tuple[int, int, int]]) -> list[float]:
        """Return bytes per second of each flow (from, to, bytes) while all of them run; no rank may be in two.

        Bytes in proportion to the rates that are expected let all end together, so that each is measured under load.
        """
        mine = next((flow for flow in flows if self.rank in flow[:2]), None)
        rates = torch.zeros(len(flows), dtype=torch.float64, device=self.device)
        if mine is not None:
            part = torch.zeros(max(mine[2] // _PARTS // _FLOAT, 1), device=self.device)
        dist.barrier()
        if mine is not None:
            began, settled = 0.0, _PARTS // 8  # bursts and slow start do not count
            for number in range(_PARTS):
                if number == settled:
                    began = time.perf_counter()
                if self.rank == mine[0]:
                    dist.send(part, mine[1])
                else:
                    dist.recv(part, mine[0])
            if self.rank == mine[1]:
                sent = part.numel() * _FLOAT * (_PARTS - settled)
                rates[flows.index(mine)] = sent / (time.perf_counter() - began)
        dist.all_reduce(rates)
        return [float(rate) for rate in rates.tolist()]

    def _ping(self, first: int, second: int, size: int) -> Callable[[], None]:
        """Return a round trip between two ranks: ``first`` sends, and hears as much back."""
        tensor = torch.zeros(max(size // _FLOAT, 1), device=self.device)

        def once() -> None:
            if self.rank == first:
                dist.send(tensor, second)
                dist.recv(tensor, second)
            elif self.rank == second:
                dist.recv(tensor, first)
                dist.send(tensor, first)

        return once

    def _cross(self, first: int, second: int, size: int) -> Callable[[], None]:
        """Return one message each way, at the same time."""
        out = torch.zeros(max(size // _FLOAT, 1), device=self.device)
        into = torch.zeros_like(out)
        other = second if self.rank == first else first

        def once() -> None:
            if self.rank in (first, second):
                # The receive first: Gloo tells the other side of it over the connection that then carries the bytes,
                # and behind those of a send it would come when they are through.
                both = [dist.P2POp(dist.irecv, into, other), dist.P2POp(dist.isend, out, other)]
                for work in dist.batch_isend_irecv(both):
                    work.wait()

        return once

    def _timed(
        self,
        once: Callable[[], None],
        timer: int,
        members: tuple[int, ...],
        most: int,
        seconds: float = 0.5,
        group: dist.ProcessGroup | None = None,
    ) -> list[float]:
        """Return the seconds of each of some calls, as the rank ``timer`` saw them; all ranks get the same list."""
        takes_part = self.rank in members
        repeats = torch.zeros(1, dtype=torch.int64, device=self.device)
        dist.barrier()
        if takes_part:
            for _ in range(_WARM_UP):
                self._call(once)
            took = self._call(once)
            repeats[0] = min(max(int(seconds / max(took, 1e-6)), _LEAST), most)
        dist.broadcast(repeats, src=timer)
        found = torch.zeros(int(repeats), dtype=torch.float64, device=self.device)
        if takes_part:
            if group is not None:
                dist.barrier(group)
            for number in range(int(repeats)):
                found[number] = self._call(once)
        dist.broadcast(found, src=timer)
        return [float(value) for value in found.tolist()]

    def _call(self, once: Callable[[], None]) -> float:
        began = time.perf_counter()
        once()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter() - began


def _nothing() -> None:
    """Stand aside."""


Make = Callable[[int, torch.device, Any, int, int], Callable[[], None]]


def _all_reduce(size: int, device: torch.device, group: Any, ranks: int, rank: int) -> Callable[[], None]:
    tensor = torch.zeros(max(size // _FLOAT, 1), device=device)
    return lambda: dist.all_reduce(tensor, group=group)


def _broadcast(size: int, device: torch.device, group: Any, ranks: int, rank: int) -> Callable[[], None]:
    tensor = torch.zeros(max(size // _FLOAT, 1), device=device)
    return lambda: dist.broadcast(tensor, 0, group=group)


def _all_gather(size: int, device: torch.device, group: Any, ranks: int, rank: int) -> Callable[[], None]:
    part = torch.zeros(max(size // _FLOAT // ranks, 1), device=device)
    whole = torch.zeros(part.numel() * ranks, device=device)
    return lambda: dist.all_gather_into_tensor(whole, part, group=group)


def _reduce_scatter(size: int, device: torch.device, group: Any, ranks: int, rank: int) -> Callable[[], None]:
    part = torch.zeros(max(size // _FLOAT // ranks, 1), device=device)
    whole = torch.zeros(part.numel() * ranks, device=device)
    return lambda: dist.reduce_scatter_tensor(part, whole, group=group)


def _all_to_all(size: int, device: torch.device, group: Any, ranks: int, rank: int) -> Callable[[], None]:
    out = torch.zeros(max(size // _FLOAT // ranks, 1) * ranks, device=device)
    into = torch.zeros_like(out)
    return lambda: dist.all_to_all_single(into, out, group=group)


# By the bytes of the whole: what all ranks hold together after a gather, what each holds before a reduction.
COLLECTIVES: dict[str, Make] = {
    "all-reduce": _all_reduce,
    "broadcast": _broadcast,
    "all-gather": _all_gather,
    "reduce-scatter": _reduce_scatter,
    "all-to-all": _all_to_all,
}
