"""Max-min fair rates on networks whose answer is known, and what makes an allocation fair in general."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine.share import fair_rates as fair_rates_by_load


def fair_rates(routes, bandwidths):
    """Rates where a byte is a byte on every wire."""
    return fair_rates_by_load({n: [(wire, 1.0) for wire in route] for n, route in routes.items()}, bandwidths)


def test_a_load_counts_as_often_as_it_says():
    # Two rise together until the wire is full at 1 + 3 times their rate; the second then has nothing left elsewhere.
    assert fair_rates_by_load({0: [(0, 1.0)], 1: [(0, 3.0), (1, 1.0)]}, [8.0, 5.0]) == {0: 2.0, 1: 2.0}
    assert fair_rates_by_load({0: [(0, 1.0)], 1: [(0, 3.0), (1, 1.0)]}, [8.0, 1.0]) == {0: 5.0, 1: 1.0}


def test_equals_share_equally():
    assert fair_rates({0: [0], 1: [0], 2: [0]}, [9.0]) == {0: 3.0, 1: 3.0, 2: 3.0}


def test_the_textbook_line():
    # One long transfer over three links, one short on each (Bertsekas and Gallager): all get half.
    assert fair_rates({0: [0, 1, 2], 1: [0], 2: [1], 3: [2]}, [1.0] * 3) == dict.fromkeys(range(4), 0.5)


def test_who_is_held_back_elsewhere_leaves_the_rest():
    assert fair_rates({0: [0], 1: [0, 1], 2: [1], 3: [1]}, [10.0, 6.0]) == {0: 8.0, 1: 2.0, 2: 2.0, 3: 2.0}


def test_no_link_no_limit():
    assert fair_rates({0: []}, []) == {0: float("inf")}
    assert fair_rates({}, [1.0]) == {}


@st.composite
def networks(draw):
    bandwidths = draw(st.lists(st.floats(0.1, 1e3), min_size=1, max_size=5))
    wires = st.lists(st.integers(0, len(bandwidths) - 1), min_size=1, max_size=3, unique=True)
    routes = draw(st.lists(wires, min_size=1, max_size=8))
    return dict(enumerate(routes)), bandwidths


@given(networks())
def test_rates_are_max_min_fair(network):
    routes, bandwidths = network
    rates = fair_rates(routes, bandwidths)
    assert rates.keys() == routes.keys()
    load = [sum(rates[n] for n, route in routes.items() if wire in route) for wire in range(len(bandwidths))]
    for used, there_is in zip(load, bandwidths):
        assert used <= there_is * (1 + 1e-9)
    # No rate can rise without a smaller one falling: everybody crosses a full link on which nobody is faster.
    for number, route in routes.items():
        assert any(
            load[wire] >= bandwidths[wire] * (1 - 1e-9)
            and all(rates[other] <= rates[number] * (1 + 1e-9) for other, path in routes.items() if wire in path)
            for wire in route
        )


@given(networks(), st.data())
def test_a_faster_link_never_lowers_the_smallest_rate(network, data):
    routes, bandwidths = network
    wire = data.draw(st.integers(0, len(bandwidths) - 1))
    faster = [rate * 2 if number == wire else rate for number, rate in enumerate(bandwidths)]
    assert min(fair_rates(routes, faster).values()) >= min(fair_rates(routes, bandwidths).values()) * (1 - 1e-9)


@pytest.mark.parametrize("count", [1, 7])
def test_scaling_all_links_scales_all_rates(count):
    routes = {n: [n % 3, (n + 1) % 3] for n in range(count)}
    once, twice = fair_rates(routes, [1.0, 2.0, 4.0]), fair_rates(routes, [2.0, 4.0, 8.0])
    assert twice == pytest.approx({number: 2 * rate for number, rate in once.items()})
