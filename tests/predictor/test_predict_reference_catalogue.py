"""The references of a plan: each asked by hand on the toy profile, and which of them speak of which strategy."""

import pytest

from handmade import MIB, cluster, link, plan, profile, timing
from paceline.cluster.cluster import Switch
from paceline.predictor.predict import Length, predict
from paceline.predictor.reference.catalogue import REFERENCES, references_for
from paceline.predictor.reference.hop import Hop, chain_of, ring_of
from paceline.strategy.contract import Plan

STEP = 0.098  # of the toy on one device: 3 x 30 ms, 5 ms optimizer, 1 ms data, 2 ms loop
GRADIENTS = 3 * MIB / 1e9  # seconds over 1 GB/s


def asked(strategy, devices=4, where=None, batch=8, of=None, **knobs):
    found = references_for(of or profile(), where or cluster(4), Plan(strategy, devices, batch, knobs))
    return {result.name: result for result in found}


def seconds(*args, **knobs):
    return {name: result.step_seconds for name, result in asked(*args, **knobs).items()}


def test_allreduce():
    found = seconds("allreduce", bucket_mb=25.0, accumulate=1)
    ring, strong = 2 * 3 / 4 * GRADIENTS, (4 * 0.09 + 0.005 + 4 * 0.001 + 0.002) / 4
    assert found == {
        "eq51-weak": pytest.approx(STEP + ring),
        "eq51-strong": pytest.approx(strong + ring),
        "paleo-tree": pytest.approx(0.095 + 4 * GRADIENTS),
        "paleo-butterfly": pytest.approx(0.095 + 2 * GRADIENTS),
        "byteps": pytest.approx(STEP),
    }


def test_a_small_bucket_exposes_less():
    assert seconds("allreduce", bucket_mb=1.0)["eq51-weak"] == pytest.approx(STEP + 2 * 3 / 4 * MIB / 1e9)


def test_accumulated_passes_are_computed_each():
    twice = seconds("allreduce", accumulate=2)
    assert twice["eq51-weak"] == pytest.approx(STEP + 0.091 + 1.5 * GRADIENTS)
    assert twice["paleo-tree"] == pytest.approx(0.095 + 0.09 + 4 * GRADIENTS)


def test_paleo_says_when_no_share_of_the_peak_explains_the_profile():
    fast = profile(None, timing([1e-12] * 3, [1e-12] * 3))
    assert asked("allreduce", of=fast)["paleo-tree"].note == "no overlap; ppp 1, and the profile is faster still"
    assert "ppp 0.00, fitted" in asked("allreduce")["paleo-tree"].note


def test_crowding_slows_references_as_it_slows_the_engine():
    crowded = profile(crowding=1.5)
    host = cluster(1, 4)
    assert seconds("allreduce", 4, host, of=crowded)["eq51-weak"] == pytest.approx(1.5 * STEP + 1.5 * GRADIENTS)


def test_servers_help_where_the_network_is_slow():
    slow = cluster(4, network=link(0.08), helpers=4)  # 10 MB/s: 0.31 s for the gradients
    assert seconds("ps", where=slow, helpers=0)["byteps"] == pytest.approx(1.5 * 100 * GRADIENTS)
    assert seconds("ps", where=slow, helpers=4)["byteps"] == pytest.approx(100 * GRADIENTS)
    assert "1.50 x a ring" in asked("ps", where=slow, helpers=4)["byteps"].note
    assert asked("ps", 4, cluster(1, 4), helpers=0) == {}


def test_averaging_now_and_then():
    tree, butterfly = 4 * GRADIENTS, 2 * GRADIENTS  # two levels of hosts, no devices inside
    assert seconds("localsgd", tau=4) == {
        "dasgd-tree": pytest.approx(STEP + tree / 4),
        "dasgd-butterfly": pytest.approx(STEP + butterfly / 4),
    }
    assert seconds("dasgd", tau=4, delay=2, xi=0.25)["dasgd-tree"] == pytest.approx(STEP)
    slow = cluster(4, network=link(0.08))
    late = (100 * tree - 2 * STEP) / 4
    assert seconds("dasgd", where=slow, tau=4, delay=2)["dasgd-tree"] == pytest.approx(STEP + late)


def test_averaging_inside_hosts():
    # 2 hosts of 4, 8 times as fast inside: one level between, a pass or two levels inside.
    hosts = cluster(2, 4, device_link=link(64.0))
    found = seconds("localsgd", 8, hosts, tau=1)
    assert found["dasgd-tree"] == pytest.approx(STEP + 2 * (1 + 1 / 8) * GRADIENTS)
    assert found["dasgd-butterfly"] == pytest.approx(STEP + (1 + 2 / 8) * GRADIENTS)


def test_a_pipeline():
    # 3 stages of a layer, 4 micro-batches of 24 / 4 = 6 samples, each 67.5 ms of layers on one device.
    found = seconds("gpipe", 3, stages=3, micro_batches=4, replicas=1, recompute=False)
    sequential = 4 * (0.0675 + 0.005 + 0.00075 + 0.002)
    border = 6 * 512 / 1e9
    assert found == {
        "eq61-62": pytest.approx(sequential * 6 / 12 + 2 * 5 * border),
        "bubble": pytest.approx(6 * 0.0225),
    }
    again = seconds("gpipe", 3, stages=3, micro_batches=4, replicas=1, recompute=True)
    assert again["eq61-62"] == found["eq61-62"]  # which knows no recomputation, and says so
    assert "without recomputation" in asked("gpipe", 3, stages=3, micro_batches=4, recompute=True)["eq61-62"].note
    assert again["bubble"] == pytest.approx(6 * 0.0225 + 6 * 0.0075)


def test_other_pipelines():
    one = seconds("1f1b", 3, stages=3, micro_batches=4, replicas=1, virtual=2)
    assert one["bubble"] == pytest.approx(5 * 0.0225)
    # One batch at a time: 24 samples pass every layer, forward and backward.
    assert seconds("model", 3, stages=3)["bubble"] == pytest.approx(0.27)
    twins = asked("gpipe", 4, stages=2, micro_batches=2, replicas=2)
    assert all("without the all-reduce of 2 replicas" in result.note for result in twins.values())


def test_a_pipeline_that_cannot_be():
    assert asked("gpipe", 4, stages=4, micro_batches=4, replicas=1) == {}  # three layers
    assert asked("gpipe", 4, stages=3, micro_batches=4, replicas=1) == {}


def test_pipedream():
    found = asked("pipedream")["pipedream-planner"]
    assert found.step_seconds == pytest.approx(0.09)
    assert found.note == "its own split: 3 layers on 4; 1 in flight"
    # Over 10 MB/s replication is dear, so the planner cuts instead: an exchange of a layer takes 0.21 s for two.
    assert "on 1" in asked("pipedream", 3, cluster(4, network=link(0.08)))["pipedream-planner"].note


@pytest.mark.parametrize("strategy", ["single", "fsdp", "unheard-of"])
def test_nothing_is_said_of_other_strategies(strategy):
    assert asked(strategy, 1) == {}


def test_every_reference_says_what_it_is():
    assert len({reference.name for reference in REFERENCES}) == len(REFERENCES)
    assert all(reference.source and reference.needs and reference.strategies for reference in REFERENCES)


def test_references_stand_beside_the_engine():
    # Gradients that travel in one bucket behind the whole backward, over a ring without latency: the engine agrees
    # with 5.1 but for the call, the copies and the sums.
    chosen = plan("allreduce", 4, 8, overlap=False, algorithm="ring")
    engine = predict(profile(), cluster(4), chosen, Length(1000)).step_seconds
    said = {result.name: result for result in references_for(profile(), cluster(4), chosen)}
    assert said["eq51-weak"].step_seconds == pytest.approx(engine, rel=1e-3)
    assert said["byteps"].step_seconds <= engine


def test_hops_along_hosts():
    near, far = Hop(0.0, 64e9), Hop(1e-3, 8e9)
    hosts = cluster(2, 2, device_link=link(64.0), network=link(8.0, 1e-3))
    assert chain_of(hosts, 4) == (near, far, near)
    assert chain_of(hosts, 2) == (near,)
    assert ring_of(hosts) == (near, far, near, far)
    assert ring_of(cluster(1, 1)) == ()


def test_hops_across_switches():
    uplink = link(2.0, 1e-4)
    host = cluster(1, 4, switches=(Switch((0, 1), uplink), Switch((2, 3), uplink)))
    inside, across = Hop(0.0, 8e9), Hop(1e-4, 2e9)
    assert chain_of(host, 4) == (inside, across, inside)
    assert ring_of(host) == (inside, across, inside, across)
