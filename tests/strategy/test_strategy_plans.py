"""Plans: what is legal, what is worth trying, what it changes, and the memory that it takes."""

from dataclasses import asdict

import pytest

from handmade import MIB, cluster, plan, profile, timing, workload
from paceline.artefact import from_dict, to_dict
from paceline.errors import FileError, UnknownNameError
from paceline.strategy.contract import Plan, Situation
from paceline.strategy.registry import find_strategy, make_plan, strategy_names


def situation(devices=4, of=None, **knobs):
    name = "single" if devices == 1 else "allreduce"
    return Situation(of or profile(), cluster().subset(devices), plan(name, devices, **knobs))


def test_all_strategies_load_and_meet_the_contract():
    assert set(strategy_names()) >= {
        *("single", "allreduce", "fsdp", "ps", "localsgd", "dasgd", "model", "gpipe", "1f1b", "pipedream")
    }
    for name in strategy_names():
        strategy = find_strategy(name)
        assert strategy.name == name
        assert strategy.summary
        assert strategy.check_knobs(strategy.knobs) is None  # its defaults are legal


def test_an_unknown_strategy_is_named():
    with pytest.raises(UnknownNameError, match="there is no strategy 'alreduce'; did you mean 'allreduce'"):
        find_strategy("alreduce")
    with pytest.raises(FileError, match=r"^job.toml: plan.strategy: there is no strategy 'x'"):
        make_plan("x", 1, 1, {}, "job.toml")


def test_single_uses_one_device_and_allreduce_several():
    several = Situation(profile(), cluster(), plan("single", 4))
    assert find_strategy("single").problem(several) == "single uses 1 device, not 4"
    alone = Situation(profile(), cluster().subset(1), plan(devices=1))
    assert "needs at least 2 devices" in find_strategy("allreduce").problem(alone)
    assert find_strategy("single").problem(situation(1)) is None
    assert find_strategy("allreduce").problem(situation(2)) is None
    assert list(find_strategy("single").variants(several)) == []
    assert list(find_strategy("allreduce").variants(alone)) == []


def test_only_buckets_that_differ_are_worth_trying():
    def tried(total):
        found = find_strategy("allreduce").variants(situation(of=profile(workload([(total,)]))))
        return [knobs["bucket_mb"] for knobs in found]

    assert tried(MIB // 2) == [1.0]  # all in one bucket already
    assert tried(20 * MIB) == [1.0, 5.0, 25.0]
    assert tried(500 * MIB) == [1.0, 5.0, 25.0, 100.0]


@pytest.mark.parametrize(
    ("knobs", "key", "what"),
    [
        ({"bucket_mb": 0}, "bucket_mb", "must be above 0"),
        ({"bucket_mb": "25"}, "bucket_mb", "must be a number"),
        ({"overlap": 1}, "overlap", "must be true or false"),
        ({"accumulate": 0}, "accumulate", "must be at least 1"),
        ({"accumulate": 1.5}, "accumulate", "must be a whole number"),
        ({"compression": "fp8"}, "compression", "known: bf16, fp16, none"),
        ({"algorithm": "rings"}, "algorithm", "did you mean 'ring'"),
        ({"bucket": 25}, "bucket", "is not a knob of allreduce; did you mean 'bucket_mb'"),
    ],
)
def test_wrong_knobs_name_the_key(knobs, key, what):
    with pytest.raises(FileError, match=what) as caught:
        make_plan("allreduce", 4, 8, knobs, "job.toml")
    assert caught.value.key == f"plan.{key}"


def test_a_plan_reads_back_as_it_was():
    made = plan(devices=2, bucket_mb=5)
    assert made.knobs["bucket_mb"] == 5.0
    assert from_dict(Plan, to_dict(made)) == made
    for name in strategy_names():  # one has a knob called async, a word of Python's own
        other = plan(name)
        assert from_dict(Plan, to_dict(other)) == other
        assert set(to_dict(other)["knobs"]) == set(find_strategy(name).knobs)
    assert str(made).startswith("allreduce on 2 x batch 8 (bucket_mb 5.0, ")


def test_only_compression_changes_the_update():
    strategy = find_strategy("allreduce")
    assert strategy.changes_update(plan()) is None
    assert strategy.changes_update(plan(compression="bf16")) == "gradients are rounded to bf16"
    assert find_strategy("single").changes_update(plan("single", 1)) is None


def test_memory_is_the_sum_of_its_kinds():
    memory = find_strategy("allreduce").memory(situation(compression="fp16"))
    assert memory.total == sum(asdict(memory).values())


def test_memory_by_hand():
    memory = find_strategy("single").memory(situation(1))
    assert (memory.parameters, memory.gradients, memory.optimizer) == (3 * MIB,) * 3  # sgd with momentum
    # Three MiB of gradients outweigh the activations: the peak is the first layer's backward, the last there is. Its
    # own activations are left, the gradient of its output and, nobody having traced this model, one as large.
    assert (memory.activations, memory.inputs, memory.buffers) == (1024 * 8, 256 * 8, 64)
    assert memory.workspace == 2 * 512 * 8
    assert memory.communication == 0


@pytest.mark.parametrize(("optimizer", "copies"), [("sgd-plain", 0), ("sgd", 1), ("adam", 2), ("adamw", 2)])
def test_optimizers_keep_their_state(optimizer, copies):
    memory = find_strategy("single").memory(situation(1, profile(optimizer=optimizer)))
    assert memory.optimizer == copies * 3 * MIB


def test_activations_grow_with_the_batch_and_weights_do_not():
    two = profile(None, *(timing([0.01] * 3, [0.02] * 3, batch=batch) for batch in (8, 16)))
    small, large = (
        find_strategy("single").memory(Situation(two, cluster().subset(1), plan("single", 1, b))) for b in (8, 16)
    )
    assert large.activations == 2 * small.activations
    assert large.inputs == 2 * small.inputs
    assert large.parameters == small.parameters


def test_gradients_live_in_the_buckets_and_compression_needs_one_again():
    of = profile(workload([(4 * MIB,), (2 * MIB,), (2 * MIB,)]))
    assert find_strategy("allreduce").memory(situation(of=of)).communication == 0
    packed = find_strategy("allreduce").memory(situation(of=of, bucket_mb=1.0, compression="fp16"))
    assert packed.communication == 2 * MIB  # half of the largest


def test_passes_hold_all_their_samples_at_once_but_not_their_activations():
    once, thrice = (find_strategy("allreduce").memory(situation(accumulate=n)) for n in (1, 3))
    assert thrice.inputs == 3 * once.inputs
    assert thrice.activations == once.activations
