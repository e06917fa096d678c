"""The figures of NCCL's tuning model (src/graph/tuning.cc, topo.h and search.cc): us and GB/s."""

from __future__ import annotations

from collections.abc import Mapping

PROTOCOLS = ("ll", "ll128", "simple")
Three = tuple[float, float, float]
Table = tuple[Three, ...]  # rows Volta, Ampere, Hopper, Blackwell; columns 1, 2 and more hosts

# -1: before Volta, with Volta's rates but without its 128-byte stores.
_ROWS: Mapping[str, int] = {
    "volta": 0,
    "turing": 0,
    "ampere": 1,
    "ada": 1,
    "hopper": 2,
    "blackwell": 3,
}


def row_of(generation: str) -> int:
    """Return a generation's row: the nearest that NCCL has figures for; -1 for all before Volta."""
    return _ROWS.get(generation, -1)


BASE: Mapping[str, Three] = {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4)}
HARDWARE: Mapping[str, Mapping[str, Three]] = {
    "nvlink": {
        "tree": (0.6, 1.25, 4.0),
        "ring": (0.6, 1.9, 3.4),
        "nvls": (25.0, 25.0, 25.0),
        "nvls-tree": (25.0, 25.0, 25.0),
    },
    "pci": {"tree": (1.0, 1.9, 4.0), "ring": (1.0, 2.5, 5.7)},
    "net": {
        "tree": (5.0, 8.5, 14.0),
        "ring": (2.7, 4.0, 14.0),
        "nvls": (18.0, 18.0, 18.0),
        "nvls-tree": (20.9, 20.9, 20.9),
    },
}
LL_MAX: Table = ((39.0, 39.0, 20.4), (87.7, 22.5, 19.0), (141.0, 45.0, 35.0), (282.0, 90.0, 70.0))
RING_LL128_MAX: Table = ((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (36.7, 36.7, 36.7), (40.0, 40.0, 40.0))
TREE_LL128_MAX: Table = ((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (36.7, 36.7, 29.0), (55.6, 31.67, 20.0))
TREE_MAX: Table = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0), (70.0, 42.8, 24.0))
NVLS_TREE_MAX: Table = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (0.0, 57.7, 45.5), (0.0, 96.0, 80.0))
NVLS_EFFICIENCY = (0.0, 0.0, 0.85, 0.74)
NVLS_SPEEDS: tuple[tuple[float, ...], ...] = (
    (),
    (),
    (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0),
    (90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0),
)
LINK_WIDTH: Mapping[int, float] = {-1: 18.0, 0: 20.0, 1: 20.0, 2: 20.6, 3: 40.1}  # one NVLink
PCIE_WIDTH: Mapping[int, float] = {-1: 12.0, 0: 12.0, 1: 24.0, 2: 48.0, 3: 48.0}  # PCIe 3, 4 and 5, 16 lanes
# Of the trees' bandwidth, from 64 bytes on by powers of two.
TREE_CORRECTION: tuple[tuple[float, ...], ...] = (
    (1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1),
    (.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9),
)  # fmt: skip
