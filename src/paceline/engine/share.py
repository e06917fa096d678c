"""Max-min fair sharing of links: nobody can get more without somebody who has less losing some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def fair_rates(routes: Mapping[int, Sequence[int]], bandwidths: Sequence[float]) -> dict[int, float]:
    """Return each transfer's rate by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2).

    All rates rise together until a link is full; the transfers on it are then fixed, the others go on rising.
    O(links * transfers); a transfer with an empty route is not limited.

    >>> fair_rates({0: [0], 1: [0, 1], 2: [1]}, [10.0, 4.0])
    {1: 2.0, 2: 2.0, 0: 8.0}
    """
    rates: dict[int, float] = {}
    left = {wire: bandwidths[wire] for route in routes.values() for wire in route}
    active = {number: route for number, route in routes.items() if route}
    rates.update({number: float("inf") for number, route in routes.items() if not route})
    while active:
        users: dict[int, int] = {}
        for route in active.values():
            for wire in route:
                users[wire] = users.get(wire, 0) + 1
        full = min(users, key=lambda wire: left[wire] / users[wire])
        rate = left[full] / users[full]
        for number in [number for number, route in active.items() if full in route]:
            rates[number] = rate
            for wire in active.pop(number):
                left[wire] = max(left[wire] - rate, 0.0)
    return rates
