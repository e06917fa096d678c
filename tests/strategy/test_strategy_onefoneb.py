"""1f1b: gpipe's time with less memory, and with several stages a device a shorter bubble."""

import itertools

import pytest

from handmade import MIB, cluster, link
from paceline.engine.breakdown import break_down
from paceline.errors import FileError
from paceline.predictor.reference.gpipe import bubble, makespan
from paceline.strategy.registry import find_strategy, make_plan
from playing import equal_layers, free, memory, played, refusal, seconds, situated


def piped(devices, micro_batches, virtual=1, forward=1.0, backward=2.0, strategy="1f1b", **knobs):
    """Equal devices, each of ``virtual`` equal layers; micro-batches of as many samples as there are devices."""
    of = equal_layers(devices * virtual, forward / virtual, backward / virtual, batch=devices)
    knobs |= {"virtual": virtual} if strategy == "1f1b" else {}
    return situated(strategy, of, free(devices), batch=micro_batches, micro_batches=micro_batches, **knobs)


@pytest.mark.parametrize("devices", range(2, 7))
@pytest.mark.parametrize("micro_batches", [1, 2, 3, 5, 8, 24])
def test_equal_stages_take_as_long_as_gpipes(devices, micro_batches):
    slots = micro_batches + devices - 1
    assert seconds(piped(devices, micro_batches)) == pytest.approx(slots * 3.0, rel=1e-3)
    again = piped(devices, micro_batches, recompute=True)
    assert seconds(again) == pytest.approx(slots * 4.0, rel=1e-3)


@pytest.mark.parametrize(("devices", "virtual"), [*itertools.product(range(2, 7), (2, 3, 4))])
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_interleaving_divides_what_fills_and_drains(devices, virtual, rounds):
    # Narayanan et al. 2021: the bubble takes (K - 1)(f + b) / V, against M (f + b) of work.
    micro_batches = devices * rounds
    asked = piped(devices, micro_batches, virtual)
    work, idle = micro_batches * 3.0, (devices - 1) * 3.0 / virtual
    assert seconds(asked) == pytest.approx(work + idle, rel=1e-3)
    assert makespan(1.0, 2.0, devices, micro_batches, virtual=virtual) == pytest.approx(work + idle)
    parts = break_down(played(asked))
    assert parts.compute == pytest.approx(work, rel=1e-9)
    lost = parts.bubble + parts.communication
    assert lost / parts.compute == pytest.approx((devices - 1) / (virtual * micro_batches), rel=0.02)
    assert lost / parts.total == pytest.approx(bubble(devices, micro_batches, virtual), rel=0.02)


def test_unequal_stages_wait_for_the_slowest():
    # 8 micro-batches through stages of 3 and 6 s: the second is busy from its first forward to its last backward.
    of = equal_layers(3, 1.0, 2.0, batch=2)  # layers of 3 s on two devices: 1 and 2 of them
    found = seconds(situated("1f1b", of, free(2), batch=8, micro_batches=8))
    first, last = 1.0, 2.0  # the first stage's first forward and its last backward
    assert found == pytest.approx(first + 8 * 6.0 + last, rel=1e-3)


def test_slow_links_fill_the_pipeline_more_slowly():
    of = equal_layers(4, 1.0, 2.0, batch=4)
    quick, slow = (
        seconds(situated("1f1b", of, cluster(4, network=link(8.0, latency)), micro_batches=8)) for latency in (0, 0.1)
    )
    # Three hops to the last stage and three back, and what each stage waits for its neighbours in between.
    assert quick + 6 * 0.1 <= slow <= quick + 2 * 8 * 0.1 + 6 * 0.1


@pytest.mark.parametrize("micro_batches", [6, 8, 16])
def test_memory_holds_what_is_in_flight(micro_batches):
    # 4 equal stages, micro-batches of 4 samples that keep 1 KiB each: 4 are alive on the first stage.
    of = equal_layers(4, 1.0, 2.0, size=MIB, batch=4)
    one, every = (
        memory(situated(name, of, free(4), batch=micro_batches, micro_batches=micro_batches))
        for name in ("1f1b", "gpipe")
    )
    assert one.parameters == every.parameters == MIB
    kept, alive = 4 * 1024, 4
    assert kept * alive <= one.activations < kept * (alive + 1) + 4 * 4 * 512 * (alive + 1)
    assert every.activations >= kept * micro_batches
    assert one.total < every.total


def test_interleaved_stages_of_a_device_add_up():
    of = equal_layers(8, 0.5, 1.0, size=MIB, batch=4)
    plain, dealt = (memory(situated("1f1b", of, free(4), batch=8, micro_batches=8, virtual=v)) for v in (1, 2))
    assert plain.parameters == dealt.parameters == 2 * MIB
    assert dealt.activations > plain.activations  # a longer warm-up keeps more in flight


def test_interleaving_needs_whole_rounds_of_micro_batches():
    of = equal_layers(8, 1.0, 1.0)
    assert refusal(situated("1f1b", of, free(4), micro_batches=8, virtual=2)) is None
    wrong = situated("1f1b", of, free(4), batch=3, micro_batches=6, virtual=2)
    assert refusal(wrong) == "interleaved stages need a multiple of 4 micro-batches, not 6"
    assert refusal(situated("1f1b", of, free(4), virtual=3)) == "12 stages are more than the model's 8 layers"


def test_knobs_and_variants():
    with pytest.raises(FileError, match="is 0, must be at least 1") as caught:
        make_plan("1f1b", 4, 8, {"virtual": 0})
    assert caught.value.key == "plan.virtual"
    of = equal_layers(8, 1.0, 1.0)
    asked = situated("1f1b", of, free(4))
    found = list(find_strategy("1f1b").variants(asked))
    assert {knobs["virtual"] for knobs in found} == {1, 2}
    assert all(refusal(situated("1f1b", of, free(4), **knobs)) is None for knobs in found)
    assert find_strategy("1f1b").changes_update(asked.plan) is None
