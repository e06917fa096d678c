"""gpipe: equal stages take the closed form, transfers and averages what the links say; memory of the fullest stage."""

import pytest

from handmade import MIB, cluster, link, profile, timing, workload
from paceline.cluster.cluster import Host, Switch
from paceline.engine.breakdown import break_down
from paceline.engine.collective import all_reduce
from paceline.engine.group import NCCL, group_of
from paceline.engine.play import play
from paceline.errors import FileError
from paceline.predictor.reference.gpipe import bubble, makespan, transfer_seconds
from paceline.strategy.pipeline.cost import replica_group
from paceline.strategy.pipeline.shape import shape_of
from paceline.strategy.registry import find_strategy, make_plan
from playing import bytes_by_wire, equal_layers, free, memory, played, refusal, seconds, situated, step_of


def piped(stages, micro_batches, forward=1.0, backward=2.0, where=None, strategy="gpipe", of=None, **knobs):
    """Equal stages of one layer: micro-batches of as many samples as there are stages, timed at that size."""
    of = of or equal_layers(stages, forward, backward, batch=stages)
    return situated(strategy, of, where or free(stages), batch=micro_batches, micro_batches=micro_batches, **knobs)


@pytest.mark.parametrize("stages", range(2, 7))
@pytest.mark.parametrize("micro_batches", [1, 2, 4, 7, 8, 32])
def test_equal_stages_take_the_closed_form(stages, micro_batches):
    asked = piped(stages, micro_batches)
    slots = micro_batches + stages - 1
    assert seconds(asked) == pytest.approx(slots * 3.0, rel=1e-3)
    assert makespan(1.0, 2.0, stages, micro_batches) == slots * 3.0
    idle = break_down(played(asked))
    assert (idle.bubble + idle.communication) / idle.total == pytest.approx((stages - 1) / slots, abs=1e-3)
    assert bubble(stages, micro_batches) == pytest.approx((stages - 1) / slots)


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 1), (3, 4), (4, 8), (6, 3)])
def test_recomputation_adds_a_forward_to_every_slot(stages, micro_batches):
    plain, again = (piped(stages, micro_batches, recompute=recompute) for recompute in (False, True))
    slots = micro_batches + stages - 1
    assert seconds(again) - seconds(plain) == pytest.approx(slots * 1.0, rel=1e-3)
    assert seconds(again) == pytest.approx(makespan(1.0, 2.0, stages, micro_batches, "checkpoint"), rel=1e-3)


def test_data_loop_and_optimizer_are_those_of_the_first_and_of_every_device():
    # 4 micro-batches of 2 samples: the loader brings all four (0.1 s each), the loop and a half of the optimizer once.
    of = equal_layers(2, 1.0, 2.0, size=MIB, batch=2, data=0.1, overhead=0.3, optimizer=0.8)
    asked = situated("gpipe", of, free(2), batch=4, micro_batches=4)
    assert seconds(asked) == pytest.approx(0.4 + 0.3 + (4 + 1) * 3.0 + 0.4, rel=1e-3)


def test_what_crosses_a_cut_takes_the_links_time():
    # 512 B a sample cross each cut; 2 samples over 1 MB/s are 1.024 ms, beside stages of nothing: fill and drain.
    of = equal_layers(3, 0.0, 0.0, batch=2)
    asked = situated("gpipe", of, cluster(3, network=link(0.008)), batch=2, micro_batches=3)
    call, once = NCCL.call_seconds, 1024 / 1e6
    # One message behind the other on each cut, both cuts at work at once: 4 slots there, and 4 back.
    assert seconds(asked) == pytest.approx(2 * 4 * (once + call))
    assert transfer_seconds([once + call] * 2, 3) == pytest.approx(seconds(asked))
    step = step_of(asked)
    carried = bytes_by_wire(step)
    # Forward and backward: 3 micro-batches of 1 KiB over each of 2 cuts, host 1 in the middle sends both ways.
    assert carried["host 0's NIC, out"] == carried["host 2's NIC, out"] == 3 * 1024
    assert carried["host 1's NIC, out"] == carried["host 1's NIC, in"] == 2 * 3 * 1024


def test_devices_of_one_host_use_their_links():
    of = equal_layers(4, 1.0, 2.0, batch=4)
    wires = bytes_by_wire(step_of(situated("gpipe", of, cluster(1, 4), batch=2, micro_batches=2)))
    assert set(wires) == {f"device {a} to device {b}" for a, b in ((0, 1), (1, 2), (2, 3), (1, 0), (2, 1), (3, 2))}
    assert set(wires.values()) == {2 * 4 * 512}


def test_pipelines_that_straddle_hosts_decide():
    # Three pipelines of 2 on two hosts of 3: the second one's neighbours are on different hosts, and all wait for it.
    of = equal_layers(2, 1.0, 2.0, batch=2)
    wires = bytes_by_wire(
        step_of(
            situated("gpipe", of, cluster(2, 3, device_link=link(80.0)), batch=2, micro_batches=2, stages=2, replicas=3)
        )
    )
    assert wires["host 0's NIC, out"] == wires["host 1's NIC, out"] >= 2 * 1024
    slow = cluster(2, 3, network=link(1e-6))
    inside = situated("gpipe", of, slow, batch=2, micro_batches=2, stages=3, replicas=2)
    assert refusal(inside) == "3 stages are more than the model's 2 layers"


def test_replicas_average_each_stage_over_the_network_its_host_shares():
    # Two stages of 100 MB on 2 hosts of 2: both stages average between the hosts, over one NIC of 1 GB/s.
    of = profile(workload([(100_000_000,)] * 2), timing([1.0, 1.0], [2.0, 2.0]))
    where = cluster(2, 2, device_link=link(1e9))
    asked = situated("gpipe", of, where, stages=2, replicas=2, micro_batches=2)
    group = replica_group(asked, shape_of(asked.plan))
    assert (group.hosts, group.per_host) == (2, 1)
    one = all_reduce(group, 100e6).seconds
    assert one == pytest.approx(0.1, rel=0.01)  # 2 * 1/2 * 100 MB
    # The last stage is done a backward earlier, so the first stage's average has the NIC to itself.
    assert seconds(asked) == pytest.approx((2 + 1) * 3.0 + one, rel=1e-3)
    assert bytes_by_wire(step_of(asked))["host 0's NIC, out"] == pytest.approx(2 * 100e6)


def test_replicas_beside_each_other_are_counted_per_switch():
    # 2 stages on hosts of 8 under two switches: replicas stand at devices 0, 2 | 4, 6 of the first stage.
    switches = (Switch((0, 1, 2, 3), link(8.0)), Switch((4, 5, 6, 7), link(8.0)))
    of = equal_layers(2, 1.0, 2.0)
    asked = situated("gpipe", of, cluster(2, 8, switches=switches), stages=2, replicas=8)
    group = replica_group(asked, shape_of(asked.plan))
    assert (group.hosts, group.per_host, group.islands) == (2, 4, (2, 2))
    wide = situated("gpipe", equal_layers(16, 1.0, 2.0), cluster(4, 8, switches=switches), stages=16, replicas=2)
    group = replica_group(wide, shape_of(wide.plan))
    assert (group.hosts, group.per_host, group.islands) == (2, 1, ())


def test_memory_by_hand():
    # 4 equal stages of one layer (1 MiB), 8 micro-batches of 4 samples, which keep 1 KiB a sample: all in flight.
    of = equal_layers(4, 1.0, 2.0, size=MIB, batch=4)
    found = memory(situated("gpipe", of, free(4), batch=8))
    assert (found.parameters, found.optimizer, found.stashed) == (MIB, MIB, 0)
    assert found.gradients == 2 * MIB  # those so far, and those of the micro-batch that is added to them
    assert found.activations >= 8 * 4 * 1024
    assert found.inputs in (0, 8 * 4 * 256)  # the first stage has the samples, another one may be the fullest
    again = memory(situated("gpipe", of, free(4), batch=8, recompute=True))
    assert again.activations < found.activations
    more = memory(situated("gpipe", of, free(4), batch=16, micro_batches=16))
    assert more.activations >= 16 * 4 * 1024


def test_a_processors_optimizer_takes_weights_one_by_one():
    # Adam's scratch: on a GPU as large as all weights of a stage; on a processor two copies of one and the one before.
    sizes = [(MIB, MIB, MIB, MIB)] * 2  # one micro-batch: the optimizer's moment is the fullest
    on_gpu, on_cpu = (
        memory(
            situated(
                "gpipe",
                profile(workload(sizes), optimizer="adam", device=device),
                free(2, device=device),
                micro_batches=1,
            )
        )
        for device in ("p100", "cpu")
    )
    assert (on_gpu.workspace, on_cpu.workspace) == (4 * MIB, 3 * MIB)


@pytest.mark.parametrize(
    ("knobs", "devices", "why"),
    [
        ({"stages": 1}, 4, "gpipe needs at least 2 stages; single is the same on one"),
        ({"stages": 2}, 4, "2 stages in 1 replicas are 2 devices, and the plan has 4"),
        ({"stages": 0, "replicas": 3}, 4, "gpipe needs at least 2 stages; single is the same on one"),
        ({"micro_batches": 5}, 4, "5 micro-batches do not divide a batch of 32"),
        ({"micro_batches": 64}, 4, "64 micro-batches do not divide a batch of 32"),
        ({}, 6, "6 stages are more than the model's 5 layers"),
    ],
)
def test_plans_that_cannot_be_are_refused(knobs, devices, why):
    of = equal_layers(5, 1.0, 1.0)
    assert refusal(situated("gpipe", of, free(devices), **knobs)) == why


def test_passes_are_limited():
    of = equal_layers(5, 1.0, 1.0)
    many = situated("gpipe", of, free(4), batch=1 << 20, micro_batches=1 << 20)
    assert refusal(many) == "1048576 micro-batches through 4 stages are more than 1048576 passes"


@pytest.mark.parametrize("key", ["micro_batches", "replicas"])
def test_knobs_that_make_no_sense_name_the_key(key):
    with pytest.raises(FileError, match="is 0, must be at least 1") as caught:
        make_plan("gpipe", 4, 8, {key: 0})
    assert caught.value.key == f"plan.{key}"
    with pytest.raises(FileError, match="is -1, must be at least 2, or 0 for all devices of a replica"):
        make_plan("gpipe", 4, 8, {"stages": -1})


def test_variants_are_legal_and_try_recomputation():
    asked = situated("gpipe", equal_layers(6, 1.0, 1.0), free(4), batch=8)
    found = list(find_strategy("gpipe").variants(asked))
    assert {knobs["stages"] for knobs in found} == {2, 4}
    assert {knobs["recompute"] for knobs in found} == {False, True}
    for knobs in found:
        assert refusal(situated("gpipe", equal_layers(6, 1.0, 1.0), free(4), batch=8, **knobs)) is None
    assert find_strategy("gpipe").changes_update(asked.plan) is None


def test_a_search_tries_no_endless_pipelines():
    asked = situated("gpipe", equal_layers(64, 1.0, 1.0), free(64))
    tried = {(knobs["stages"], knobs["micro_batches"]) for knobs in find_strategy("gpipe").variants(asked)}
    assert {(64, 64), (64, 128), (2, 2), (2, 16)} <= tried
    assert max(stages * micro_batches for stages, micro_batches in tried) == 1 << 13


def test_names_say_what_a_task_is():
    program = step_of(piped(2, 2)).program
    names = list(program.names)
    assert names[:4] == ["data", "loop", "data", "loop"]
    assert program.names.which("forward") == [n for n, name in enumerate(names) if name.startswith("forward")]
    assert [names[n] for n in program.names.which("backward")] == ["backward 0", "backward 1"] * 2
    assert group_of(cluster(2)).size == 2
    assert play(program).makespan > 0


def test_stages_that_do_not_fit_are_split_for_memory():
    # The first layers hold nearly all weights, the last ones take nearly all time: balanced by time the first stage is
    # three large layers, which do not fit where two do.
    of = profile(workload([(100 * MIB,)] * 3 + [(MIB,)] * 3), timing([0.001] * 3 + [0.1] * 3, [0.002] * 3 + [0.2] * 3))
    wide, tight = (free(2, device="cpu", host=Host(size * MIB, 160e9)) for size in (4000, 750))
    balanced_by_time, fitting = (memory(situated("gpipe", of, where, micro_batches=4)) for where in (wide, tight))
    assert balanced_by_time.total > 750 * MIB > fitting.total
