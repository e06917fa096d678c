"""Predictions: sums, ranges, epochs, money, memory, and what was guessed."""

from dataclasses import asdict, replace

import pytest

from handmade import MIB, cluster, link, memory_of, plan, profile, timing, workload
from paceline.artefact import from_dict, to_dict
from paceline.cluster.cluster import Price
from paceline.errors import PacelineError
from paceline.predictor.predict import Length, device_memory, memory_kinds, predict, predict_played
from paceline.predictor.prediction import Prediction

SINGLE = plan("single", 1)


def alone(of=None, length=None, where=None):
    return predict(of or profile(), where or cluster(), SINGLE, length or Length(1000))


def test_one_device_by_hand():
    found = alone()
    step = 0.001 + 0.002 + 0.030 + 0.060 + 0.005
    assert found.step_seconds == pytest.approx(step)
    assert found.samples_per_second == pytest.approx(8 / step)
    assert asdict(found.breakdown) == pytest.approx(
        {"compute": 0.095, "communication": 0.0, "bubble": 0.0, "overhead": 0.002, "data": 0.001}
    )
    assert found.scaling == pytest.approx({"speedup": 1.0, "efficiency": 1.0})
    assert (found.devices, found.hosts, found.global_batch) == (1, 1, 8)
    assert found.plan == SINGLE
    assert found.source == "measured"
    assert found.changes_update is None


def test_several_devices_scale_by_what_they_lose():
    found = predict(profile(), cluster(4, 2), plan(devices=8), Length(1000))
    single = alone()
    assert (found.devices, found.hosts, found.global_batch) == (8, 4, 64)
    assert found.step_seconds > single.step_seconds
    assert found.breakdown.total == pytest.approx(found.step_seconds)
    assert found.breakdown.communication > 0
    assert found.scaling["speedup"] == pytest.approx(8 * single.step_seconds / found.step_seconds)
    assert found.scaling["efficiency"] == pytest.approx(single.step_seconds / found.step_seconds)


def test_an_epoch_is_its_samples_and_its_start():
    found = alone(profile(start_seconds=3.0), Length(1001, epochs=4))
    assert found.epoch_samples == 1001
    assert found.epoch_steps == 126
    assert found.epoch_seconds == pytest.approx(3.0 + 1001 / 8 * found.step_seconds)
    assert found.total_seconds == pytest.approx(4 * found.epoch_seconds)


def test_a_cap_on_steps_shortens_the_whole_not_the_epoch():
    found = alone(None, Length(800, epochs=10, steps=50))
    assert found.epoch_steps == 100
    assert found.epoch_seconds == pytest.approx(100 * found.step_seconds)
    assert found.total_seconds == pytest.approx(50 * found.step_seconds)
    assert alone(None, Length(800, epochs=1, steps=999)).total_seconds == pytest.approx(100 * found.step_seconds)


def test_a_price_is_paid_for_the_devices_that_are_used():
    found = predict(profile(), cluster(4, 2, helpers=3), plan(devices=4), Length(10**6, epochs=3))
    assert found.cost.epoch == pytest.approx(4 * 2.0 * found.epoch_seconds / 3600)
    assert found.cost.total == pytest.approx(3 * found.cost.epoch)
    assert found.cost.currency == "USD"


def test_helpers_are_paid_for_where_a_plan_uses_them():
    used = replace(plan(devices=4), knobs={**plan(devices=4).knobs, "helpers": 2})
    found = predict(profile(), cluster(4, helpers=3, price=Price(2.0, 0.5, "EUR")), used, Length(10**6))
    assert found.cost.epoch == pytest.approx((4 * 2.0 + 2 * 0.5) * found.epoch_seconds / 3600)
    assert found.cost.currency == "EUR"


def test_no_price_no_cost():
    assert alone(where=cluster(price=None)).cost is None


def test_the_range_comes_from_the_spreads():
    found = alone()
    low, high = found.step_seconds_range
    assert high - found.step_seconds == pytest.approx(0.02 * found.step_seconds)
    assert found.step_seconds - low == pytest.approx(0.02 * found.step_seconds)


def test_compute_and_network_err_independently():
    of, slow = profile(workload([(10 * MIB,)] * 3)), cluster(network=link(0.5, spread=0.3))
    found = predict(of, slow, plan(), Length(1000))
    own = found.step_seconds - found.breakdown.communication
    width = (0.02 * own) ** 2 + (1.28 * 0.3 * found.breakdown.communication) ** 2
    assert found.step_seconds_range[1] - found.step_seconds == pytest.approx(width**0.5)


def test_an_interpolated_batch_widens_the_range():
    of = profile(None, *(timing([0.01 * b] * 3, [0.02 * b] * 3, batch=b) for b in (4, 16)))
    timed, between = (predict(of, cluster(), plan("single", 1, batch), Length(1000)) for batch in (4, 8))
    assert _relative_width(between) > 2 * _relative_width(timed)
    assert timed.guessed == ()
    assert between.guessed == ("the times at batch 8 (from those at 4, 16)",)


def _relative_width(found):
    low, high = found.step_seconds_range
    return (high - low) / found.step_seconds


def test_what_nobody_measured_is_listed():
    of = profile(source="modelled", note="a model of the P100, not a measurement")
    guess = link(source="guessed", name="ethernet-10g")
    found = predict(of, cluster(2, 2, network=guess, device_link=guess), plan(), Length(1000))
    assert found.guessed == (
        "the link between the devices of a host (ethernet-10g)",
        "the network between hosts (ethernet-10g)",
        "the layer times (a model of the P100, not a measurement)",
    )
    # One device uses no link.
    assert (
        predict(of, cluster(2, 2, network=guess, device_link=guess), SINGLE, Length(1000)).guessed == found.guessed[2:]
    )


def test_memory_fits_or_not():
    found = alone()
    needed = found.memory_bytes
    assert needed == found.memory.total == sum(asdict(found.memory).values())
    assert found.fits
    assert found.device_memory_bytes == 16 << 30
    exactly = memory_of(needed / (1 << 30))
    assert alone(where=exactly).fits
    short = replace(exactly, host=replace(exactly.host, memory_bytes=needed - 1))
    assert not alone(where=short).fits


def test_processors_share_their_hosts_memory():
    assert device_memory(memory_of(32, per_host=4)) == 8 << 30
    assert device_memory(memory_of(32, per_host=4).subset(2)) == 16 << 30


def test_memory_kinds_are_named_largest_first():
    kinds = memory_kinds(alone().memory)
    assert list(kinds.values()) == sorted(kinds.values(), reverse=True)
    assert sum(kinds.values()) == alone().memory_bytes


def test_tokens_are_counted_where_there_are_any():
    words = profile(workload(unit="sequences", tokens=128))
    found = alone(words)
    assert found.unit == "sequences"
    assert found.tokens_per_second == pytest.approx(128 * found.samples_per_second)
    assert alone().tokens_per_second is None


def test_a_plan_that_cannot_run_is_a_sentence():
    with pytest.raises(PacelineError, match=r"^this plan cannot run: allreduce needs at least 2 devices"):
        predict(profile(), cluster(), plan(devices=1), Length(1000))
    with pytest.raises(PacelineError, match="has 4 devices, and 5 are asked for"):
        predict(profile(), cluster(), plan(devices=5), Length(1000))


def test_a_prediction_reads_back_as_it_was():
    found = predict(profile(), cluster(), plan(compression="fp16"), Length(1000))
    assert from_dict(Prediction, to_dict(found)) == found
    assert found.changes_update == "gradients are rounded to fp16"


def test_the_timeline_is_that_of_the_prediction():
    found = predict_played(profile(), cluster(), plan(), Length(1000))
    assert found.played.makespan == found.prediction.step_seconds
