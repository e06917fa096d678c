"""What would lift a bottleneck: by hand on round numbers, and always what predicting it again confirms."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import MIB, cluster, link, plan, profile, timing, workload
from paceline.cluster.cluster import Switch
from paceline.predictor.explain import explained
from paceline.predictor.faster import RATES, faster_links, raised
from paceline.predictor.predict import Length, predict, predict_played
from paceline.predictor.relief import relief

LENGTH = Length(1000)
# 100 ms of compute, one bucket of 25 MiB that nothing hides: 39 MB on the wire for four.
LARGE = profile(workload([(25 * MIB,)]), timing([0.030], [0.070]))
EVEN = profile(workload([(MIB,)] * 4), timing([0.010] * 4, [0.020] * 4))


def lift(of, where, chosen):
    return relief(of, where, chosen, LENGTH)


def share(of, where, chosen):
    found = predict(of, where, chosen, LENGTH)
    return found.breakdown.communication / found.step_seconds


def test_a_faster_network():
    # Exposed below 5 % of the step asks for 39.3 MB in 5.2 ms: 60 Gb/s, and 100 is the next that is sold.
    assert lift(LARGE, cluster(network=link(8.0)), plan()) == "a network of 100 Gb/s would hide it"
    assert lift(LARGE, cluster(network=link(8.0), nics=2), plan()) == "a network of 2 x 40 Gb/s would hide it"


def test_faster_links_inside():
    assert lift(LARGE, cluster(1, 4), plan()) == "links of 100 Gb/s inside the hosts would hide it"
    uplink = link(8.0)
    host = cluster(1, 4, device_link=link(400.0), switches=(Switch((0, 1), uplink), Switch((2, 3), uplink)))
    assert lift(LARGE, host, plan(algorithm="ring")) == "links of 100 Gb/s inside the hosts would hide it"


def test_both():
    found = lift(LARGE, cluster(2, 2), plan(algorithm="ring"))
    assert found == "a network of 100 Gb/s and links of 100 Gb/s inside the hosts would hide it"


def test_the_last_rate_may_not_suffice():
    short = profile(workload([(25 * MIB,)]), timing([0.001], [0.002]))
    assert lift(short, cluster(), plan()) == "a network of more than 800 Gb/s would hide it"


def test_latency_is_no_matter_of_bandwidth():
    slow = cluster(network=link(8.0, 0.01))
    found = lift(LARGE, slow, plan())
    left = share(LARGE, cluster(network=link(1e9, 0.01)), plan())
    assert found == (
        f"no network would hide it: {left:.0%} would stay without a byte to carry, since latency is the limit"
    )


def test_waits_are_no_matter_of_links():
    shaky = profile(workload([(MIB,)]), timing([0.030], [0.070], jitter=0.2))
    assert "what no link shortens, such as calls, sums and waits, is the limit" in lift(shaky, cluster(), plan())


def test_measured_collectives_are_left_out():
    from paceline.cluster.curve import Curve

    stuck = Curve("all-reduce", 4, (0.0, 1e9), (0.5, 0.5))
    assert lift(LARGE, cluster(curves=(stuck,)), plan()) == "a network of 100 Gb/s would hide it"


def test_more_micro_batches():
    # Bubble of 4 equal stages: 3 / (M + 3), so 3/7 of 4 and 3/35 of 32, which are all the samples that there are.
    chosen = plan("gpipe", 4, 8, micro_batches=4)
    found = lift(EVEN, cluster(network=link(1e6)), chosen)
    parts = re.fullmatch(r"(\d+) micro-batches would make it (\d+)%, and the step (\d+)% shorter", found)
    assert parts.groups()[:2] == ("32", "9")
    assert float(parts[3]) == pytest.approx(100 * (1 - (35 / 32) / (7 / 4)), abs=0.51)


def test_one_batch_at_a_time_becomes_a_pipeline():
    found = lift(EVEN, cluster(network=link(1e6)), plan("model", 4, 8))
    assert found.startswith("gpipe with 32 micro-batches would make it 9%")


def test_as_many_micro_batches_as_samples():
    chosen = plan("gpipe", 4, 1, micro_batches=4)
    assert lift(EVEN, cluster(network=link(1e6)), chosen) == "more micro-batches would not help"


def test_what_needs_no_relief():
    assert lift(EVEN, cluster(), plan("single", 1)) is None
    assert lift(profile(None, timing([0.01] * 3, [0.02] * 3, data=0.1)), cluster(), plan("single", 1)) is None
    assert lift(EVEN, cluster(network=link(1e6)), plan("pipedream", 4, 8, partition="0-3,3-4x3")) is None


@given(
    st.sampled_from(["allreduce", "fsdp", "ps", "localsgd"]),
    st.sampled_from([(4, 1), (2, 2), (1, 4)]),
    st.floats(0.1, 100),
    st.floats(0.1, 100),
)
def test_the_links_that_are_named_suffice_and_slower_ones_do_not(strategy, hosts, inside, between):
    where = cluster(*hosts, device_link=link(inside), network=link(between))
    chosen = plan(strategy, 4, 8)

    def exposed(other):
        return share(LARGE, other, chosen)

    if exposed(where) < 0.05:
        return
    found = faster_links(where, chosen, exposed)
    network, within = (re.search(words, found) for words in (r"network of (\d+) Gb/s", r"links of (\d+) Gb/s"))
    rates = [float(match[1]) * 1e9 if match else 0.0 for match in (network, within)]
    if any(rates):
        assert exposed(raised(where, *rates)) < 0.05
        for place, rate in enumerate(rates):
            own = (where.network, where.device_link)[place].bandwidth
            slower = [each for each in RATES if own < each < rate]
            if slower:
                assert exposed(raised(where, *(slower[-1] if n == place else r for n, r in enumerate(rates)))) >= 0.05
    else:
        assert "more than 800" in found or found.startswith("no network")


def whole(of, where, chosen):
    return explained(of, where, predict_played(of, where, chosen, LENGTH), LENGTH).prediction


def test_the_whole_sentence():
    found = whole(LARGE, cluster(network=link(8.0)), plan())
    part = found.breakdown.communication / found.step_seconds
    assert found.bottleneck == (
        f"the network between the hosts: {part:.0%} of the step is exposed all-reduce (bucket of layer0); "
        "a network of 100 Gb/s would hide it"
    )
    short = predict(LARGE, cluster(network=link(8.0)), plan(), LENGTH)
    assert replace(found, bottleneck=short.bottleneck) == short


def test_the_slowest_stage():
    uneven = profile(workload([(MIB,)] * 2), timing([0.010, 0.030], [0.020, 0.060]))
    found = whole(uneven, cluster(2, network=link(1e6)), plan("gpipe", 2, 8, micro_batches=16)).bottleneck
    assert ", and stage 1 computes 1.5 x the mean; " in found  # 3 of (1 + 3) / 2
    even = whole(EVEN, cluster(network=link(1e6)), plan("gpipe", 4, 8, micro_batches=4)).bottleneck
    assert "computes" not in even


def test_a_huge_step_is_not_asked_again(monkeypatch):
    monkeypatch.setattr("paceline.predictor.explain._MOST", 5)
    assert whole(LARGE, cluster(), plan()).bottleneck.endswith("exposed all-reduce (bucket of layer0)")


def test_a_search_does_not_ask_again(monkeypatch):
    def never(*_):
        raise AssertionError("asked")

    monkeypatch.setattr("paceline.predictor.explain.relief", never)
    assert predict(LARGE, cluster(), plan(), LENGTH).bottleneck.endswith("of the step is exposed communication")
    with pytest.raises(AssertionError, match="asked"):
        whole(LARGE, cluster(), plan())
