"""ps: its knobs, legal plans, and the strategy object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paceline.errors import PacelineError
from paceline.strategy.contract import Knob, Memory, Plan, Situation, Step
from paceline.strategy.unlaunched import Unlaunched
from paceline.units import MEBI, format_bytes
from paceline.workload.arrays import layer_arrays

PARTITIONS_MB = (1.0, 4.0, 16.0)
MOST_PARTITIONS = 1 << 16  # that are played one by one


class ParameterServer(Unlaunched):
    """Gradients are summed by servers on hosts and helpers; optimizers stay with the workers."""

    name = "ps"
    summary = "summation servers on hosts and CPU-only helpers: partitions by priority, optimal shares (BytePS)"
    knobs: Mapping[str, Knob] = {
        "helpers": 0,
        "partition_mb": 4.0,
        "credit_mb": 16.0,
        "switch_size": 0,  # devices that aggregate on links of their own; 0: as the host's switches say
        "roots": "auto",
        "async": False,
        "servers": 0,  # hosts that run a server; 0: all of them
        "barrier": False,  # no layer starts the next step before all parameters are there
    }

    def problem(self, situation: Situation) -> str | None:
        """It needs workers, and the helpers that it asks for."""
        if situation.plan.devices < 2:
            return "ps needs at least 2 devices"
        size = layer_arrays(situation.profile.workload).gradient_bytes
        if not size:
            return f"{situation.profile.workload.name} has no weights that train, so there is nothing to sum"
        asked, there = int(situation.plan.knobs["helpers"]), situation.cluster.helpers
        if asked > there:
            return (
                f"it asks for {asked} helpers and {situation.cluster.name} has {there}; set helpers in the cluster file"
            )
        servers, hosts = int(situation.plan.knobs["servers"]), situation.cluster.hosts
        if servers > hosts:
            return f"it asks for servers on {servers} hosts and the plan uses {hosts}; set servers lower"
        if servers and asked:
            return "it asks for helpers and for servers on some hosts; set servers to 0, or helpers"
        partition_mb = float(situation.plan.knobs["partition_mb"])
        if size > MOST_PARTITIONS * partition_mb * MEBI:
            return (
                f"partitions of {partition_mb:g} MB cut {format_bytes(size)} of gradients into more than "
                f"{MOST_PARTITIONS}; take larger ones"
            )
        return self._roots_problem(situation)

    def _roots_problem(self, situation: Situation) -> str | None:
        """Return what is wrong with the way in which a host's devices bring their gradients together."""
        from paceline.strategy.ps.inside import aggregation

        cluster, switch_size = situation.cluster, int(situation.plan.knobs["switch_size"])
        roots = str(situation.plan.knobs["roots"])
        if roots != "auto" and switch_size:
            return "it names roots and a switch size; set switch_size = 0, or leave out the roots"
        if roots != "auto" and not cluster.spans_switches:
            return f"it names roots, which need a link across the switches of a host, and {cluster.name} has none"
        try:
            aggregation(cluster, switch_size, roots)
        except PacelineError as error:
            return str(error)
        return None

    def variants(self, situation: Situation) -> Iterator[Mapping[str, Knob]]:
        """Yield all helpers, half of them and none; partitions where they differ for this model."""
        if situation.plan.devices < 2:
            return
        there = situation.cluster.helpers
        largest = situation.profile.workload.gradient_bytes / (1 << 20)
        for helpers in sorted({0, there // 2, there}):
            for number, size in enumerate(PARTITIONS_MB):
                if number == 0 or PARTITIONS_MB[number - 1] < largest:
                    yield {**self.knobs, "helpers": helpers, "partition_mb": size, "credit_mb": 4 * size}

    def step(self, situation: Situation) -> Step:
        """Return some steps whose partitions cross into the next step's forward."""
        from paceline.strategy.ps.cost import step

        return step(situation)

    def memory(self, situation: Situation) -> Memory:
        """Return a replica's memory with what is in flight."""
        from paceline.strategy.ps.cost import memory

        return memory(situation)

    def changes_update(self, plan: Plan) -> str | None:
        """Servers sum what all workers send, unless they do not wait for all."""
        return "workers do not wait for each other" if plan.knobs["async"] else None

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """Return the first knob whose value makes no sense."""
        for key in ("helpers", "switch_size", "servers"):
            if int(knobs[key]) < 0:
                return key, f"is {knobs[key]}, must not be negative"
        for key in ("partition_mb", "credit_mb"):
            if not 0 < float(knobs[key]) <= 1 << 20:
                return key, f"is {knobs[key]}, must be above 0 and at most {1 << 20}"
        roots = str(knobs["roots"])
        if roots != "auto" and not all(part.strip().isdecimal() for part in roots.split(",")):
            return "roots", f"is {roots!r}, must be 'auto' or devices such as '2,3'"
        return None
