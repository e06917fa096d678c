"""BytePS' optimum (Jiang et al. 2020): how summation is shared by GPU machines and spare CPU machines.

    n  GPU machines      M  bytes of gradients of each                        n, k as counted, 0 <= k <= n
    k  CPU machines      B  bits per second of every machine's NIC, each way

    M_cpu = 2(n-1) / (n^2 + kn - 2k) * M        summed on a CPU machine
    M_gpu = (n-k)  / (n^2 + kn - 2k) * M        summed on a GPU machine;  M = k M_cpu + n M_gpu
    t_opt = 2n(n-1) / (n^2 + kn - 2k) * M / B

Derivation: a GPU machine sends (and receives) M - M_gpu as a worker and (n-1) M_gpu as a server, a CPU machine n M_cpu
as a server; time is least when both take equally long. k = 0 gives the ring's 2(n-1)/n M/B, k = n gives M/B.

Outside the formula: more than n CPU machines bring nothing over n, and are clamped; one machine exchanges nothing
(0/0). Known error: a lower bound. Latency, the sums on the CPUs, and the links inside a machine are taken as free.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shares:
    """Bytes that the server on one machine of each kind sums; those of all machines add up to M."""

    cpu: float
    gpu: float


def optimal_shares(size: float, machines: int, helpers: int) -> Shares:
    """Return M_cpu and M_gpu; CPU machines over n stay unused.

    >>> optimal_shares(56.0, 8, 4)   # 7/44 and 2/44 of it: 4 * 7/44 + 8 * 2/44 = 1
    Shares(cpu=8.909090909090908, gpu=2.5454545454545454)
    """
    n, k = machines, min(helpers, machines)
    if n == 1:
        return Shares(0.0, size)
    whole = n * n + k * n - 2 * k
    return Shares(2 * (n - 1) / whole * size if k else 0.0, (n - k) / whole * size)


def optimum_seconds(size: float, machines: int, helpers: int, bandwidth: float) -> float:
    """Return t_opt.

    >>> optimum_seconds(1e9, 8, 0, 8e9), optimum_seconds(1e9, 8, 8, 8e9)
    (1.75, 1.0)
    """
    n, k = machines, min(helpers, machines)
    return 0.0 if n == 1 else 2 * n * (n - 1) / (n * n + k * n - 2 * k) * 8 * size / bandwidth


def gain(machines: int, helpers: int) -> float:
    """Return how many times as fast as a ring all-reduce the optimum is: 1 + k (n-2) / n^2; two machines gain nothing.

    >>> gain(8, 8), gain(2, 2), gain(1, 1)
    (1.75, 1.0, 1.0)
    """
    n, k = machines, min(helpers, machines)
    return 1.0 if n == 1 else 1 + k * (n - 2) / n**2


def separate_servers_seconds(size: float, machines: int, servers: int, bandwidth: float) -> float:
    """Return a parameter server on k machines of its own: max(M, n M / k) / B.

    >>> separate_servers_seconds(1e9, 8, 4, 8e9)
    2.0
    """
    return 0.0 if machines == 1 else max(size, machines * size / servers) * 8 / bandwidth


def joint_servers_seconds(size: float, machines: int, bandwidth: float) -> float:
    """Return a parameter server on the workers' own machines: as the ring, 2(n-1)/n M/B."""
    return optimum_seconds(size, machines, 0, bandwidth)
