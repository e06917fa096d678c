"""The bottleneck in words, on steps that are bound by one thing each."""

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


def test_the_network():
    # Four buckets of 126 ms each; the first one leaves 60 ms in front of the backward's end, at 60 ms.
    assert slow_network(1.0) == "the network between the hosts: 79% of the step is exposed communication"


def test_links_inside_a_host():
    layers = profile(workload([(100 * MIB,)]), timing([0.010], [0.020]))
    said = bottleneck(layers, cluster(1, 4, device_link=link(1.0)), plan())
    assert said.startswith("the links between the devices of a host: ")


def test_a_fast_network_is_no_bottleneck():
    assert slow_network(1000.0).startswith("the devices: ")


def test_idle_devices():
    stages = profile(workload([(MIB,)] * 2), timing([0.010] * 2, [0.020] * 2))
    chosen = plan("model", 2, 8)
    assert bottleneck(stages, cluster(2, network=link(1e6)), chosen) == "idle devices: 50% of the step is bubble"
