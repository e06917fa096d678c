"""Max-min fair sharing of links: nobody can get more without somebody who has less losing some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Route = Sequence[tuple[int, float]]  # (wire, bytes on it for a byte of the transfer)


def fair_rates(routes: Mapping[int, Route], bandwidths: Sequence[float]) -> dict[int, float]:
    """Return each transfer's rate by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2).

    All rates rise together until a link is full; the transfers on it are then fixed, the others go on rising. A link
    carries each transfer's rate times its load there. O(links * transfers); an empty route is not limited.

    >>> fair_rates({0: [(0, 1.0)], 1: [(0, 1.0), (1, 1.0)], 2: [(1, 1.0)]}, [10.0, 4.0])
    {1: 2.0, 2: 2.0, 0: 8.0}
    """
    rates: dict[int, float] = {}
    left = {wire: bandwidths[wire] for route in routes.values() for wire, _ in route}
    active = {number: route for number, route in routes.items() if route}
    rates.update({number: float("inf") for number, route in routes.items() if not route})
    while active:
        users: dict[int, float] = {}
        for route in active.values():
            for wire, load in route:
                users[wire] = users.get(wire, 0.0) + load
        full = min(users, key=lambda wire: left[wire] / users[wire])
        rate = left[full] / users[full]
        for number in [n for n, route in active.items() if any(wire == full for wire, _ in route)]:
            rates[number] = rate
            for wire, load in active.pop(number):
                left[wire] = max(left[wire] - rate * load, 0.0)
    return rates
