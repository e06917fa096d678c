"""The bottleneck in words, on steps that are bound by one thing each."""

import re

from handmade import MIB, cluster, link, plan, profile, timing, workload
from paceline.predictor.predict import Length, predict


def bottleneck(of, where=None, chosen=None):
    return predict(of, where or cluster(), chosen or plan("single", 1), Length(1000)).bottleneck


def one(**parts):
    return profile(workload([(MIB,)]), timing([0.010], [0.020], **parts))


def test_the_devices():
    assert bottleneck(one()) == "the devices: 100% of the step is compute, the rest is hidden or small"


def test_the_input():
    assert bottleneck(one(data=0.030)).startswith("the input: 50% of the step waits for data")


def test_the_loop():
    assert bottleneck(one(overhead=0.010)).startswith(
        "the loop around the step: 25% of it is neither compute nor network"
    )


def slow_network(bandwidth):
    layers = profile(workload([(10 * MIB,)] * 4), timing([0.010] * 4, [0.020] * 4))
    return bottleneck(layers, cluster(network=link(bandwidth)), plan(bucket_mb=1.0))


def test_the_network_and_what_would_lift_it():
    said = slow_network(1.0)
    assert said.startswith("the network between the hosts: ")
    # Four buckets of 126 ms each; the first one leaves when the backward has 60 ms to go.
    times = float(re.search(r"about ([\d.]+) x the bandwidth would hide the rest", said)[1])
    assert 7.5 < times < 9.5


def test_links_inside_a_host():
    layers = profile(workload([(100 * MIB,)]), timing([0.010], [0.020]))
    said = bottleneck(layers, cluster(1, 4, device_link=link(1.0)), plan())
    assert said.startswith("the links between the devices of a host: ")


def test_a_fast_network_is_no_bottleneck():
    assert slow_network(1000.0).startswith("the devices: ")
