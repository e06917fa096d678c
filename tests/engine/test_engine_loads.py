"""What each class of link carries: by hand, by counting, and against what an algorithm must move at least."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine.collective import COLLECTIVES, Phase, exchange, phases
from paceline.engine.collective.phase import merged, seconds_of
from paceline.engine.collective.torus import row_length
from paceline.engine.group import NCCL, Group

NAMED = [(name, algorithm) for name, known in COLLECTIVES.items() for algorithm in known]
N = 1000.0


def group(hosts, per_host, **more):
    return Group(hosts=hosts, per_host=per_host, backend=NCCL, inside_bandwidth=8e9, between_bandwidth=8e9, **more)


@st.composite
def groups(draw):
    islands = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    return group(
        draw(st.integers(1, 9)),
        sum(islands) or draw(st.integers(1, 9)),
        islands=islands if len(islands) > 1 else (),
        uplink_bandwidth=4e9,
        nics=draw(st.integers(1, 4)),
        oversubscription=draw(st.sampled_from([1.0, 3.0])),
    )


def carried(found, link):
    return sum(phase.loads.get(link, 0.0) for phase in found)


@given(groups(), st.sampled_from(NAMED))
def test_only_links_that_there_are_carry_anything(where, which):
    found = phases(where, *which, N)
    assert {link for phase in found for link in phase.loads} <= set(where.bandwidths)
    assert all(load > 0 for phase in found for load in phase.loads.values())
    if where.hosts == 1:
        assert carried(found, "nic") == carried(found, "core") == 0


@given(groups(), st.sampled_from(list(COLLECTIVES["all-reduce"])))
def test_an_all_reduce_moves_what_it_must(where, algorithm):
    found = phases(where, "all-reduce", algorithm, N)
    if where.hosts > 1:
        # A tree of hosts has m - 1 edges and every byte crosses each twice; only a switch that adds moves less.
        least = 2 * (where.hosts - 1) / where.hosts * N
        assert carried(found, "nic") >= least * (1 - 1e-9)
        if where.oversubscription > 1:
            assert carried(found, "core") >= least * (1 - 1e-9)
    elif where.size > 1 and not where.islands:
        assert carried(found, "device") >= (2 * (where.size - 1) / where.size) * N * (1 - 1e-9)
        assert sum(phase.summed for phase in found) >= (where.size - 1) / where.size * N * (1 - 1e-9)


@given(groups())
def test_a_ring_loads_every_link_alike(where):
    [*found] = phases(where, "all-reduce", "ring", N)
    share = 2 * (where.size - 1) / where.size * N
    for phase in found:
        assert phase.loads == pytest.approx(dict.fromkeys(where.bandwidths, share))


@given(groups(), st.sampled_from(["ring", "halving-doubling", "hierarchical"]))
def test_a_reduce_scatter_and_an_all_gather_are_an_all_reduce(where, algorithm):
    both = [*phases(where, "reduce-scatter", algorithm, N), *phases(where, "all-gather", algorithm, N)]
    once = phases(where, "all-reduce", algorithm, N)
    if where.size & (where.size - 1) == 0 or algorithm != "halving-doubling":
        for link in where.bandwidths:
            assert carried(both, link) == pytest.approx(carried(once, link))
        assert sum(phase.latency for phase in both) == pytest.approx(sum(phase.latency for phase in once))


def test_halving_doubling_sends_the_most_to_neighbours():
    # 2 hosts of 4: a half and a quarter inside, an eighth of each of 4 devices over the NIC; and back.
    found = phases(group(2, 4), "all-reduce", "halving-doubling", N)
    assert carried(found, "device") == pytest.approx(2 * 3 / 4 * N)
    assert carried(found, "nic") == pytest.approx(2 * 4 / 8 * N)


def test_butterfly_crowds_the_nic():
    found = phases(group(4, 8), "all-reduce", "butterfly", N)
    assert [dict(phase.loads) for phase in found] == [{"device": 3 * N}, {"nic": 2 * 8 * N}]
    assert carried(phases(group(4, 8, nics=8), "all-reduce", "butterfly", N), "nic") == 2 * 8 * N


def test_pairs_that_are_split_over_switches_use_the_uplinks():
    found = phases(group(1, 4, islands=(2, 2), uplink_bandwidth=8e9), "all-reduce", "butterfly", N)
    assert [dict(phase.loads) for phase in found] == [{"device": N}, {"uplink": 2 * N}]


@pytest.mark.parametrize(("hosts", "halves"), [(2, 2), (3, 3), (4, 4), (5, 4), (8, 4), (13, 4), (64, 4)])
def test_two_trees_by_drawing_them(hosts, halves):
    # In-order binary trees rooted at 0, as NCCL builds them; the second is mirrored, or shifted when hosts are odd.
    neighbours = np.zeros(hosts, int)
    for node in range(1, hosts):
        bit = node & -node
        parent = (node ^ bit) | (bit << 1)
        parent = parent if parent < hosts else node ^ bit
        for one in (node, parent):
            neighbours[one] += 1
            neighbours[hosts - 1 - one if hosts % 2 == 0 else (one + 1) % hosts] += 1
    assert neighbours.max() == halves
    assert carried(phases(group(hosts, 1), "all-reduce", "double-tree", N), "nic") == halves / 2 * N


def test_a_chain_inside_carries_twice_in_the_middle():
    loads = [carried(phases(group(1, size), "all-reduce", "double-tree", N), "device") for size in (2, 3, 8)]
    assert loads == [N, 2 * N, 2 * N]


def test_all_to_all_by_hand():
    # 3 hosts of 4 in pairs: 1 of 12 parts to the neighbour, 2 devices x 2 others over an uplink, 4 x 8 over the NIC.
    where = group(3, 4, islands=(2, 2), oversubscription=2.0)
    [found] = phases(where, "all-to-all", "direct", 12.0)
    assert found.loads == pytest.approx({"device": 1.0, "uplink": 4.0, "nic": 32.0, "core": 32.0})


def test_broadcast_and_send_by_hand():
    where = group(4, 2, nics=2, oversubscription=2.0, inside_latency=1.0, between_latency=10.0)
    [chain] = phases(where, "broadcast", "ring", N)
    assert (chain.latency, dict(chain.loads)) == (4 * 1 + 3 * 10, {"device": N, "nic": N, "core": 0.75 * N})
    [sent] = phases(where, "point-to-point", "direct", N)
    assert (sent.latency, dict(sent.loads)) == (10, {"nic": 2 * N, "core": 0.25 * N})  # one NIC of two
    tree = phases(where, "broadcast", "binomial", N)
    assert sum(phase.latency for phase in tree) == 10 + 10 + 1
    assert carried(phases(group(8, 1), "broadcast", "scatter-all-gather", N), "nic") == pytest.approx(2 * 7 / 8 * N)
    [alone] = phases(group(1, 2), "point-to-point", "direct", N)
    assert alone.loads == {"device": N}
    [over] = phases(group(1, 2, islands=(1, 1)), "point-to-point", "direct", N)
    assert over.loads == {"uplink": N}


def test_all_gather_between_hosts_by_hand():
    found = phases(group(4, 2, inside_latency=1.0, between_latency=10.0), "all-gather", "hierarchical", N)
    assert [(phase.latency, dict(phase.loads)) for phase in found] == [
        (30, {"nic": 0.75 * N}),
        (1, {"device": 0.5 * N}),
    ]


@pytest.mark.parametrize("pattern", [exchange.butterfly, exchange.binomial])
@pytest.mark.parametrize("ranks", [1, 2, 3, 6, 8, 11, 16])
def test_whole_messages_reach_everybody_once(pattern, ranks):
    held = [{rank} for rank in range(ranks)]
    for each in pattern(ranks):
        before = [set(one) for one in held]
        for source, destination in zip(each.sources, each.destinations):
            if each.summed:
                assert not before[source] & before[destination], "added twice"
                held[destination] = before[source] | before[destination]
            else:
                held[destination] = before[source]
    assert all(one == set(range(ranks)) for one in held)


@pytest.mark.parametrize("ranks", [2, 4, 5, 7, 8, 12, 16])
def test_halves_of_halves_make_the_whole(ranks):
    # Follow the interval that each rank is left with: the lower half stays with the first of a pair.
    size = dict.fromkeys(range(ranks), 1.0)
    rounds = list(exchange.halving(ranks))
    for each in rounds:
        for source, destination, part in zip(each.sources, each.destinations, each.parts):
            assert part == pytest.approx(size[source] if each.name == "fold" else size[source] / 2)
            assert each.name == "fold" or (destination, source) in set(zip(each.sources, each.destinations))
        size |= {int(rank): 0.0 if each.name == "fold" else size[int(rank)] / 2 for rank in each.sources}
    assert sum(size.values()) == pytest.approx(1.0)
    for each in exchange.doubling(ranks):
        for source, part in zip(each.sources, each.parts):
            assert part == pytest.approx(size[int(source)])
        size |= {int(rank): min(size[int(rank)] + part, 1.0) for rank, part in zip(each.destinations, each.parts)}
    assert all(one == pytest.approx(1.0) for one in size.values())


@pytest.mark.parametrize("ranks", [2, 3, 8, 11])
def test_a_scattered_tree_leaves_everybody_a_part(ranks):
    held = [1.0] + [0.0] * (ranks - 1)
    for each in exchange.tree_scatter(ranks):
        for source, destination, part in zip(each.sources, each.destinations, each.parts):
            held[source] -= part
            held[destination] += part
    assert held == pytest.approx([1 / ranks] * ranks)


@pytest.mark.parametrize(
    ("hosts", "per_host", "row"), [(16, 1, 4), (4, 4, 4), (2, 8, 4), (64, 8, 16), (7, 1, 1), (7, 4, 4), (1, 8, 4)]
)
def test_the_torus_is_as_square_as_hosts_allow(hosts, per_host, row):
    assert row_length(group(hosts, per_host)) == row


def test_rows_of_a_torus_that_span_hosts():
    # 64 hosts of 8: rows of 16 are 2 hosts, which hand 15/16 n on; 32 rows of columns, 8 columns on a NIC of 2 hosts'.
    found = phases(group(64, 8), "all-reduce", "torus", N)
    assert found[0].loads == pytest.approx({"device": 15 / 16 * N, "nic": 15 / 16 * N})
    assert found[1].loads == pytest.approx({"nic": 8 * 2 * 31 / 32 / 16 * N})


phase = st.builds(
    Phase,
    st.sampled_from(["a", "b"]),
    st.floats(0, 1),
    st.dictionaries(st.sampled_from(["device", "nic"]), st.floats(1, 1e6), min_size=1),
    st.floats(0, 1e6),
)


@given(st.lists(phase, max_size=8))
def test_merged_phases_take_as_long(some):
    links = {"device": 8e6, "nic": 3e6}
    assert seconds_of(merged(some, links), links, 1e7) == pytest.approx(seconds_of(some, links, 1e7))
    assert len(merged(some, links)) <= len(some)


def test_sums_that_cost_nothing():
    assert Phase("ring", 1.0, {}, 1e9).byte_seconds({}, math.inf) == 0.0
