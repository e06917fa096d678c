"""How many of the bytes each summation server gets, so that no NIC is busier than another.

n hosts with workers, k helpers without, M bytes of gradients a host, one bandwidth for all NICs (Jiang et al. 2020):

    helper  2(n-1) / (n^2 + kn - 2k)      host  (n-k) / (n^2 + kn - 2k)      of M, for ONE server of each sort

A host sends what it does not sum itself, and receives it summed: 1 + (n-2) host bytes for a byte of gradients each way;
a helper n helper. Both are 2n(n-1) / (n^2 + kn - 2k): the split makes them equal.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of all bytes that one host's server sums, and that one helper's does."""

    host: float
    helper: float


def optimal_shares(hosts: int, helpers: int) -> Shares:
    """Return the split that keeps the busiest NIC least busy.

    More helpers than hosts take all of it, and more of them help no further: every worker must still send and receive
    everything. A single host has nobody to exchange with.

    >>> optimal_shares(8, 0), optimal_shares(8, 8)
    (Shares(host=0.125, helper=0.0), Shares(host=0.0, helper=0.125))
    """
    if hosts == 1:
        return Shares(1.0, 0.0)
    if helpers >= hosts:
        return Shares(0.0, 1 / helpers)
    whole = hosts**2 + helpers * hosts - 2 * helpers
    return Shares((hosts - helpers) / whole, 2 * (hosts - 1) / whole if helpers else 0.0)


def some_hosts(servers: int) -> Shares:
    """Return equal shares of servers that run on some of the hosts: what one of these hosts sums.

    Such a host is busier than those without: 1 + (n-2) / servers bytes each way for a byte of gradients, not 1.

    >>> some_hosts(4)
    Shares(host=0.25, helper=0.0)
    """
    return Shares(1 / servers, 0.0)
