"""What of the transfers is exposed: by hand, by name, and in sum the breakdown's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import MIB, cluster, link, plan, profile, timing, workload
from paceline.engine.breakdown import break_down
from paceline.engine.play import play
from paceline.engine.program import Builder, Work
from paceline.predictor.exposed import exposed_seconds, exposed_words, transfer_words
from paceline.predictor.predict import Length, predict_played

FOUR = profile(workload([(MIB,)] * 4), timing([0.010] * 4, [0.020] * 4, optimizer=0.004))


def two_behind_a_backward():
    """4 s of backward; a starts at 2 s and takes 4 s, b at 3 s and takes 5 s: both exposed for 2 s, b alone for 2 s."""
    build = Builder()
    device, idle = build.role("device", 3), build.role("server", 1, idle=True)
    compute = build.stream("compute", device)
    first = build.task("backward 1", Work.COMPUTE, compute, 2.0)
    second = build.task("backward 2", Work.COMPUTE, compute, 1.0, [first])
    build.task("backward 3", Work.COMPUTE, compute, 1.0, [second])
    build.transfer("all-reduce a", 0, [], 4.0, [first], device=device)
    build.transfer("all-reduce b", 0, [], 5.0, [second], device=device)
    build.transfer("sum", 0, [], 9.0, device=idle)
    return play(build.build())


def test_by_hand():
    played = two_behind_a_backward()
    # Of the 4 s behind the backward, a and b share the first two; the server's transfer is nobody's wait.
    assert dict(exposed_seconds(played, (0.0, 8.0))) == {3: pytest.approx(1.0), 4: pytest.approx(3.0)}
    assert exposed_words(played, (0.0, 8.0)) == "all-reduce (the largest part: b)"


def test_a_window_cuts():
    assert dict(exposed_seconds(two_behind_a_backward(), (5.0, 7.0))) == {
        3: pytest.approx(0.5),
        4: pytest.approx(1.5),
    }
    assert exposed_words(two_behind_a_backward(), (0.0, 3.0)) == "communication"


def test_only_the_largest_kind_is_named():
    build = Builder()
    device = build.role("device")
    for number, (name, seconds) in enumerate((("gather unit of conv", 3.0), ("scatter unit of conv", 1.0))):
        build.transfer(name, 0, [], seconds, range(number), device=device)
    assert exposed_words(play(build.build()), (0.0, 4.0)) == "communication, 75% of it gather (unit of conv)"


def test_the_words_of_a_transfer():
    assert transfer_words("push 2 conv1") == ("push", "conv1")
    assert transfer_words("push 2, inside the host conv1") == ("push", "inside the host conv1")
    assert transfer_words("gather again unit of conv1 (ring)") == ("gather again", "unit of conv1")
    assert transfer_words("all-reduce of P 3 (hierarchical)") == ("all-reduce", "P 3")
    assert transfer_words("wait for the slowest") == ("wait for the slowest", "")
    assert transfer_words("average 7 (ring)") == ("average", "")


def words(strategy, gigabits, devices=4, **knobs):
    where = cluster(4, network=link(gigabits))
    found = predict_played(FOUR, where, plan(strategy, devices, 8, **knobs), Length(1000))
    return exposed_words(found.played, found.window)


def test_buckets_are_called_after_the_layer_that_closes_them():
    # A bucket of 1 MiB takes 13 ms on 1 Gb/s and hides behind 20 ms of the layer in front; the last has none in front.
    # On 0.6 Gb/s it takes 21 ms, so 3 ms of the third are exposed too.
    assert words("allreduce", 1.0, bucket_mb=1.0) == "all-reduce (bucket of layer0)"
    assert words("allreduce", 0.6, bucket_mb=1.0) == "all-reduce (the largest part: bucket of layer0)"
    assert words("allreduce", 0.6, bucket_mb=2.0) == "all-reduce (the largest part: bucket of layer0)"


def test_what_a_pipeline_sends_is_called_after_the_link():
    found = words("model", 0.01)
    assert found.startswith("communication, 50% of it send ") and "(the largest part: host " in found


@given(st.sampled_from(["allreduce", "fsdp", "ps", "localsgd", "dasgd", "model", "gpipe", "1f1b", "pipedream"]))
def test_the_parts_add_up(strategy):
    found = predict_played(FOUR, cluster(4, network=link(0.05)), plan(strategy, 4, 8), Length(1000))
    parts = sum(seconds for _, seconds in exposed_seconds(found.played, found.window))
    assert parts == pytest.approx(break_down(found.played, found.window).communication, abs=1e-12)
