"""Plans put before a strategy, and its steps played: what the tests of all strategies share."""

from handmade import cluster, link, plan, profile, timing, workload
from paceline.cluster.cluster import Cluster, Host
from paceline.engine.play import Played, play
from paceline.engine.program import Work
from paceline.strategy.contract import Memory, Situation, Step
from paceline.strategy.registry import find_strategy
from paceline.workload.profile import Profile


def free(hosts: int = 4, per_host: int = 1, **more) -> Cluster:
    """A cluster whose links carry everything at once, and whose processors sum it."""
    known = {"network": link(1e12), "device_link": link(1e12), "host": Host(64 * 10**9, 1e24)}
    return cluster(hosts, per_host, **known | more)


def equal_layers(count: int, forward: float, backward: float, size: int = 4, batch: int = 8, **more) -> Profile:
    """Layers that all take the same, with ``size`` bytes of weights each."""
    return profile(
        workload([(size,)] * count, batch=batch), timing([forward] * count, [backward] * count, batch=batch, **more)
    )


def situated(strategy: str, of: Profile | None = None, where: Cluster | None = None, **more) -> Situation:
    """A plan on all devices of a cluster, as predict asks about it."""
    of, where = of or profile(), where or cluster()
    devices, batch = more.pop("devices", where.devices), more.pop("batch", of.workload.batch)
    made = plan(strategy, devices, batch, **more)
    return Situation(of, where.subset(devices), made, where.devices_per_host)


def refusal(situation: Situation) -> str | None:
    return find_strategy(situation.plan.strategy).problem(situation)


def step_of(situation: Situation) -> Step:
    assert refusal(situation) is None
    return find_strategy(situation.plan.strategy).step(situation)


def played(situation: Situation) -> Played:
    return play(step_of(situation).program)


def seconds(situation: Situation) -> float:
    """What one global batch takes."""
    step = step_of(situation)
    first, last = play(step.program).window(step.window)
    return (last - first) / step.batches


def memory(situation: Situation) -> Memory:
    return find_strategy(situation.plan.strategy).memory(situation)


def bytes_by_wire(step: Step) -> dict[str, float]:
    """Bytes that all transfers of a program put on each wire."""
    program = step.program
    found = dict.fromkeys((wire.name for wire in program.wires), 0.0)
    for task in range(len(program)):
        low, high = program.routes.bounds[task], program.routes.bounds[task + 1]
        for wire, load in zip(program.routes.items[low:high], program.loads[low:high]):
            found[program.wires[wire].name] += program.bytes[task] * load
    return found


def picture(run: Played, unit: float, letters: str = "FB") -> list[str]:
    """Draw the passes of each role: a column a unit of time, in which a pass begins, ``..`` for none."""
    program = run.program
    rows = [[".."] * round(run.makespan / unit) for _ in program.roles]
    for task, name in enumerate(program.names):
        if program.works[task] == Work.COMPUTE and name.startswith(("forward", "backward")):
            row, column = rows[program.device[task]], round(run.start[task] / unit)
            row[column] = letters[name.startswith("backward")] + name.split()[1]
    return [" ".join(row) for row in rows]
