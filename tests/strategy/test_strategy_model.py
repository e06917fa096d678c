"""model: one batch through all devices, of which one works at a time."""

import pytest

from handmade import MIB, cluster, link, profile, timing, workload
from paceline.engine.breakdown import break_down
from paceline.engine.group import NCCL
from paceline.strategy.registry import find_strategy
from playing import equal_layers, free, memory, played, refusal, seconds, situated


@pytest.mark.parametrize("devices", [2, 3, 5, 8])
def test_a_step_is_the_sum_of_everything(devices):
    of = equal_layers(devices, 0.5, 1.5, batch=8 * devices)
    asked = situated("model", of, free(devices), batch=8)
    assert seconds(asked) == pytest.approx(devices * 2.0, rel=1e-3)
    parts = break_down(played(asked))
    assert parts.compute == pytest.approx(2.0)
    assert (parts.bubble + parts.communication) / parts.total == pytest.approx(1 - 1 / devices, abs=1e-3)


def test_transfers_data_and_optimizer_are_in_the_sum():
    # Two layers of 1 + 2 s; 16 samples of 512 B over 1 KB/s both ways; the halves of the optimizer on two devices.
    of = profile(
        workload([(MIB,), (MIB,)], batch=16),
        timing([1.0] * 2, [2.0] * 2, batch=16, optimizer=0.4, data=0.1, overhead=0.2),
    )
    asked = situated("model", of, cluster(2, network=link(8e-6, 0.01)), batch=8)
    hop = 8.192 + 0.01 + NCCL.call_seconds
    # The first device ends last: data, loop, its forward, hop, the other's passes, hop, its backward, its share.
    assert seconds(asked) == pytest.approx(0.1 + 0.2 + 1 + hop + 3 + hop + 2 + 0.2)


def test_layers_are_split_where_the_stages_are_even():
    of = profile(workload([(MIB,)] * 4, batch=16), timing([3.0, 1.0, 1.0, 1.0], [0.0] * 4, batch=16))
    parts = break_down(played(situated("model", of, free(2), batch=8)))
    assert parts.compute == pytest.approx(3.0)
    assert seconds(situated("model", of, free(2), batch=8)) == pytest.approx(6.0, rel=1e-3)


def test_memory_is_a_stages():
    of = profile(workload([(MIB,), (MIB,), (4 * MIB,)]), optimizer="adam")
    found = memory(situated("model", of, free(3)))
    assert (found.parameters, found.gradients, found.optimizer) == (4 * MIB, 4 * MIB, 8 * MIB)


def test_plans():
    of = equal_layers(3, 1.0, 1.0)
    model = find_strategy("model")
    assert list(model.variants(situated("model", of, free(3)))) == [{"stages": 3}]
    assert list(model.variants(situated("model", of, free(3), devices=1))) == []
    assert (
        refusal(situated("model", of, free(3), devices=1)) == "model needs at least 2 stages; single is the same on one"
    )
    assert refusal(situated("model", of, free(4))) == "4 stages are more than the model's 3 layers"
    assert model.changes_update(situated("model", of, free(3)).plan) is None
