"""pipedream: mini-batches without a flush leave as often as the slowest stage lets them; versions are stashed."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handmade import MIB, cluster, link, profile, timing, workload
from paceline.engine.breakdown import break_down
from paceline.engine.collective import all_reduce
from paceline.engine.group import group_of
from paceline.engine.play import play
from paceline.engine.replication import Level, ReplicatedStage, replicated
from paceline.errors import FileError
from paceline.strategy.pipedream.cost import _group
from paceline.strategy.pipedream.order import pipedream
from paceline.strategy.pipedream.partition import parse_partition, partition_text, stages_of
from paceline.strategy.pipeline.order import Pass
from paceline.strategy.registry import find_strategy, make_plan
from playing import equal_layers, free, memory, refusal, seconds, situated, step_of


def piped(replicas, stage_seconds, where=None, **more):
    """A layer a stage: a mini-batch takes a stage's worker so long, a third of it forward."""
    of = profile(
        workload([(4,)] * len(replicas)),
        timing([s / 3 for s in stage_seconds], [2 * s / 3 for s in stage_seconds], **more),
    )
    text = partition_text([ReplicatedStage(n, n + 1, count) for n, count in enumerate(replicas)])
    return situated("pipedream", of, where or free(sum(replicas)), partition=text)


def period(asked):
    """Seconds between two mini-batches: a global batch has one for each device."""
    return seconds(asked) / asked.plan.devices


def walked(replicas, stage_seconds, batches=240):
    """The same pipeline by walking each worker's order: no links, and a backward behind the average before the last."""
    spans = {Pass.FORWARD: [s / 3 for s in stage_seconds], Pass.BACKWARD: [2 * s / 3 for s in stage_seconds]}
    workers = [(stage, replica) for stage, count in enumerate(replicas) for replica in range(count)]
    orders = {worker: list(pipedream(replicas, batches, *worker)) for worker in workers}
    at, now, ended = dict.fromkeys(workers, 0), dict.fromkeys(workers, 0.0), {}
    while any(at[worker] < len(orders[worker]) for worker in workers):
        for worker in workers:
            while at[worker] < len(orders[worker]):
                op, count = orders[worker][at[worker]], replicas[worker[0]]
                if op.kind is Pass.FORWARD:
                    wanted = [(Pass.FORWARD, op.stage - 1, op.micro)] if op.stage else []
                else:
                    wanted = [(Pass.BACKWARD, op.stage + 1, op.micro)] if op.stage + 1 < len(replicas) else []
                    old = op.micro // count - 2
                    wanted += [(Pass.BACKWARD, op.stage, old * count + n) for n in range(count) if old >= 0]
                if any(each not in ended for each in wanted):
                    break
                start = max([now[worker], *(ended[each] for each in wanted)])
                now[worker] = ended[op.kind, op.stage, op.micro] = start + spans[op.kind][op.stage]
                at[worker] += 1
    repeat = math.lcm(*replicas)
    low, high = batches // 3 // repeat * repeat, 2 * batches // 3 // repeat * repeat
    return (ended[Pass.BACKWARD, 0, high] - ended[Pass.BACKWARD, 0, low]) / (high - low)


@pytest.mark.parametrize("stages", range(2, 9))
def test_equal_stages_reach_one_mini_batch_per_stage_time(stages):
    assert period(piped((1,) * stages, [3.0] * stages)) == pytest.approx(3.0, rel=1e-3)


def test_the_slowest_stage_sets_the_pace():
    assert period(piped((1, 1, 1), [1.0, 5.0, 2.0])) == pytest.approx(5.0, rel=1e-3)
    assert period(piped((1, 1, 1), [4.0, 1.0, 2.0])) == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize(
    "replicas", [(3, 1), (1, 3), (3, 2), (2, 3), (2, 1, 1), (1, 1, 2), (2, 2), (4, 2), (2, 4), (5, 3)]
)
def test_replicated_stages_share_the_mini_batches(replicas):
    # Each worker equally busy, and one stage much slower than the others.
    even = [3.0 * count for count in replicas]
    assert period(piped(replicas, even)) == pytest.approx(3.0, rel=1e-3)
    for slow in range(len(replicas)):
        uneven = [6.0 * count if stage == slow else 1.0 for stage, count in enumerate(replicas)]
        bound = max(s / count for s, count in zip(uneven, replicas))
        assert period(piped(replicas, uneven)) == pytest.approx(bound, rel=1e-3)


@pytest.mark.parametrize(("replicas", "times"), [((1, 2, 1), 1.5), ((3, 2, 1), 1.25), ((2, 3, 4), 1.25)])
def test_the_order_cannot_always_reach_the_bound(replicas, times):
    # As many mini-batches are admitted as pass while one goes through: none may wait, and these shapes make some wait.
    even = [3.0 * count for count in replicas]
    assert period(piped(replicas, even)) == pytest.approx(times * 3.0, rel=0.01)
    assert walked(replicas, even) == pytest.approx(times * 3.0, rel=0.01)
    # Where the middle has a quarter of its time to spare, it is reached again.
    idle = [3.0 * count * (1 if stage == 0 else 0.5) for stage, count in enumerate(replicas)]
    assert period(piped(replicas, idle)) == pytest.approx(3.0, rel=1e-3)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), min_size=1, max_size=4))
def test_the_engine_plays_the_order(stages):
    replicas, weights = zip(*stages)
    if sum(replicas) < 2:
        return
    asked = piped(replicas, [float(weight) for weight in weights])
    bound = max(weight / count for count, weight in stages)
    found = period(asked)
    assert found >= bound * (1 - 1e-3)
    assert found == pytest.approx(walked(replicas, weights), rel=0.03)  # windows of different lengths


def test_the_planners_estimate_where_transfers_hide():
    # Four layers, the last with all weights: the planner keeps it apart.
    costs, weights = [3.0, 3.0, 3.0, 3.0], [0, 0, 0, 10**9]
    of = profile(
        workload([(size,) if size else () for size in weights]),
        timing([1.0] * 4, [2.0] * 4),
    )
    asked = situated("pipedream", of, cluster(4, network=link(1.0)))
    planned = replicated(costs, [512 * 8] * 4, weights, [Level(4, 1e9)])
    assert [stage.replicas for stage in planned.stages] == [3, 1]
    assert stages_of(asked) == planned.stages
    assert period(asked) == pytest.approx(planned.seconds, rel=1e-3) == pytest.approx(3.0, rel=1e-3)


def test_every_worker_passes_every_mini_batch_of_its_own_once():
    asked = piped((3, 2), [1.0, 2.0])
    program = step_of(asked).program
    names = list(program.names)
    for stage, count in ((0, 3), (1, 2)):
        for kind in ("forward", "backward"):
            seen = []
            for replica in range(count):
                role = next(n for n, each in enumerate(program.roles) if each.name == f"stage {stage}.{replica}")
                own = [int(names[n].split()[1]) for n in program.names.which(kind) if program.device[n] == role]
                assert all(batch % count == replica for batch in own)
                seen += own
            assert sorted(seen) == list(range(len(seen)))
    assert play(program).makespan > 0


def test_optimizer_data_and_loop_are_the_workers_own():
    # One stage has all weights: its optimizer runs for every mini-batch; data is loaded by the input stage only.
    of = profile(workload([(), (MIB,)]), timing([1.0, 1.0], [2.0, 2.0], optimizer=0.5, data=0.25, overhead=0.125))
    asked = situated("pipedream", of, free(2), partition="0-1, 1-2")
    step = step_of(asked)
    run = play(step.program)
    assert period(asked) == pytest.approx(0.125 + 3.0 + 0.5, rel=1e-3)
    parts = break_down(run, run.window(step.window)).scaled(1 / step.batches)
    # Per global batch of two mini-batches, in the mean of two devices.
    assert parts.compute == pytest.approx((6.0 + 0.5 * 2) / 2 + 3.0, rel=0.01)
    assert parts.data == pytest.approx(0.25, rel=0.01)
    assert parts.overhead == pytest.approx(0.25, rel=0.01)


def test_transfers_bound_where_they_are_the_slowest():
    # 8 samples of 512 B over 1 KB/s: 4.1 s a mini-batch each way, both at once on a full-duplex NIC.
    of = equal_layers(2, 0.5, 0.5)
    asked = situated("pipedream", of, cluster(2, network=link(8e-6)), partition="0-1, 1-2")
    # One after the other for a mini-batch: two are in flight, and each needs both directions and its passes.
    assert 4.096 <= period(asked) <= (2 * 4.096 + 2.0) / 2 * 1.01


def test_averages_bound_where_they_are_the_slowest():
    # 100 MB averaged by four: 0.15 s a round of four mini-batches, one round behind the other.
    of = profile(workload([(100_000_000,)]), timing([0.01], [0.02]))
    asked = situated("pipedream", of, cluster(4), partition="0-1x4")
    round_seconds = all_reduce(group_of(asked.cluster), 100e6).seconds
    assert 4 * period(asked) == pytest.approx(round_seconds, rel=0.01)


def test_replicas_over_unequal_parts_of_hosts_are_all_counted():
    # Ranks 1, 2, 3 stand on hosts of 2 as 1 + 2: the ring has three members, not two.
    asked = situated("pipedream", equal_layers(2, 1.0, 1.0), cluster(2, 2), partition="0-1x1, 1-2x3")
    group = _group(asked, 1, 3)
    assert (group.size, group.hosts) == (3, 3)
    assert (_group(asked, 0, 4).hosts, _group(asked, 0, 4).per_host) == (2, 2)
    assert (_group(asked, 2, 2).hosts, _group(asked, 2, 2).per_host) == (1, 2)


stages = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 64)), min_size=1, max_size=8)


@given(stages)
def test_partitions_read_back(shape):
    made, first = [], 0
    for layers, replicas in shape:
        made.append(ReplicatedStage(first, first + layers, replicas))
        first += layers
    assert parse_partition(partition_text(made)) == tuple(made)


def test_partitions_by_hand():
    assert parse_partition("0-2x3,2-5") == (ReplicatedStage(0, 2, 3), ReplicatedStage(2, 5, 1))
    assert partition_text(parse_partition("0 - 2 x 3 , 2-5")) == "0-2x3, 2-5x1"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "'' is no stage such as '0-20x3'"),
        ("0-2x3;2-4", "is no stage such as"),
        ("0-2, 3-4", "stage '3-4' does not go on where the one before it ends"),
        ("1-4", "stage '1-4' does not go on"),
        ("0-0", "stage '0-0' does not go on"),
        ("0-4x0", "stage '0-4x0' does not go on"),
        ("-1-4", "is no stage such as"),
    ],
)
def test_partitions_that_make_no_sense_are_refused(text, what):
    with pytest.raises(FileError, match=what) as caught:
        make_plan("pipedream", 4, 8, {"partition": text})
    assert caught.value.key == "plan.partition"


def test_stashing_keeps_a_version_for_every_mini_batch_in_flight():
    # 4 stages of 1 MiB: 4, 3, 2 and 1 versions; the fullest is the first, with four mini-batches of 8 KiB kept.
    of = equal_layers(4, 1.0, 2.0, size=MIB)
    found = memory(situated("pipedream", of, free(4), partition="0-1, 1-2, 2-3, 3-4"))
    assert (found.parameters, found.optimizer, found.stashed) == (MIB, MIB, 3 * MIB)
    assert found.activations >= 4 * 8 * 1024
    without = memory(situated("pipedream", of, free(4), partition="0-1, 1-2, 2-3, 3-4", stash=False))
    assert without.stashed == 0


def test_vertical_sync_keeps_the_input_stages_versions_everywhere():
    # All weights on the last stage: it keeps one version, with vertical sync those of all four mini-batches.
    of = profile(workload([(), (), (), (MIB,)]), timing([1.0] * 4, [2.0] * 4))
    plain, synced = (
        memory(situated("pipedream", of, free(4), partition="0-1, 1-2, 2-3, 3-4", vertical_sync=sync))
        for sync in (False, True)
    )
    assert (plain.stashed, synced.stashed) == (0, 3 * MIB)


def test_replicas_make_gradients_while_others_travel():
    of = equal_layers(2, 1.0, 2.0, size=MIB)
    found = memory(situated("pipedream", of, free(4), partition="0-1x3, 1-2"))
    assert (found.parameters, found.stashed, found.communication) == (MIB, MIB, MIB)  # ceil(4 / 3) in flight


def test_problems_say_what_is_wrong():
    of = equal_layers(4, 1.0, 1.0)
    assert refusal(situated("pipedream", of, devices=1)) == "pipedream needs at least 2 devices"
    assert (
        refusal(situated("pipedream", of, partition="0-4x3")) == "the stages have 3 workers, and the plan has 4 devices"
    )
    assert refusal(situated("pipedream", of, partition="0-3x4")) == "the stages end at layer 3, and the model has 4"
    assert refusal(situated("pipedream", of, free(2048))) == "pipedream is predicted for at most 1024 devices, not 2048"
    assert refusal(situated("pipedream", of)) is None


def test_plans():
    strategy = find_strategy("pipedream")
    assert "some mini-batches old" in strategy.changes_update(situated("pipedream").plan)
    assert list(strategy.variants(situated("pipedream"))) == [dict(strategy.knobs)]
    with pytest.raises(FileError, match="is true without stash") as caught:
        make_plan("pipedream", 4, 8, {"stash": False, "vertical_sync": True})
    assert caught.value.key == "plan.vertical_sync"
    alone = situated("pipedream")
    assert list(strategy.variants(replace(alone, plan=replace(alone.plan, devices=1)))) == []
