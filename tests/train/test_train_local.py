"""Workers that average weights reach those of a plain reference that trains all of them in one process."""

from pathlib import Path

import pytest
import torch
from torch import nn

from local_runs import CASES, WORKERS, Case, Net, set_rate, state
from paceline.launcher.local import run_module

TESTS = Path(__file__).parent.parent
SINGLE = [name for name, case in CASES.items() if not case.double]


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[dict]:
    """What each rank left."""
    folder = tmp_path_factory.mktemp("local")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS), prepend=":")
        failed = run_module("local_runs", [str(folder)], WORKERS, "local", folder / "logs")
    assert not failed, "".join(path.read_text() for path in (folder / "logs").rglob("stderr.log"))
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORKERS)]


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [p.detach() for p in model.parameters() if p.requires_grad]


def mean(models: list[nn.Module]) -> list[torch.Tensor]:
    return [sum(same) / len(models) for same in zip(*map(weights, models))]


def assign(model: nn.Module, values: list[torch.Tensor]) -> None:
    for weight, value in zip(weights(model), values):
        weight.copy_(value)


class Reference:
    """All workers of a case, each with a model, an optimizer and data of its own."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.workers = [case.make() for _ in range(WORKERS)]
        self.models = [model for model, _ in self.workers]

    def step(self, step: int) -> None:
        """Let every worker take a step of its own."""
        for rank, (model, optimizer) in enumerate(self.workers):
            inputs, targets = self.case.batch(rank, step)
            set_rate(optimizer, self.case.lr(step))
            if len(inputs):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()

    def rates(self, step: int) -> list[float]:
        groups = self.workers[0][1].param_groups
        rates = {id(p): self.case.lr(step) * group.get("scale", 1.0) for group in groups for p in group["params"]}
        return [rates[id(p)] for p in self.models[0].parameters() if p.requires_grad]

    def local_sgd(self, steps: int) -> None:
        case, apart = self.case, 0
        outer, tau = case.knobs.get("outer"), case.tau
        alpha, beta = {"slowmo": (1.0, 0.5), "diloco": (0.7, 0.9)}.get(outer, (0.0, 0.0))
        alpha, beta = case.knobs.get("outer_lr", alpha), case.knobs.get("outer_momentum", beta)
        for step in range(steps):
            if step == case.first:
                x0 = [w.clone() for w in weights(self.models[0])]
                u = [torch.zeros_like(w) for w in x0]
            self.step(step)
            apart += 1
            if step >= case.first and apart < tau:
                continue
            apart, x = 0, mean(self.models)
            if outer and step >= case.first:
                moved = [start - end for start, end in zip(x0, x)]
                if outer == "slowmo":
                    rates = self.rates(step)
                    u = [beta * a + (b / lr if lr else 0 * b) for a, b, lr in zip(u, moved, rates)]
                    x = x0 = [a - alpha * lr * b for a, b, lr in zip(x0, u, rates)]
                else:
                    u = [beta * a + b for a, b in zip(u, moved)]
                    x = x0 = [a - alpha * (b + beta * c) for a, b, c in zip(x0, moved, u)]
            for model in self.models:
                assign(model, x)

    def dasgd(self, steps: int) -> None:
        tau, delay, xi = (self.case.knobs[key] for key in ("tau", "delay", "xi"))
        average = None
        for step in range(steps):
            self.step(step)
            if average is not None and step % tau == delay - 1:
                self.merge(xi, average)
            if step % tau == tau - 1:
                average = mean(self.models)
                if delay == 0:
                    self.merge(xi, average)

    def merge(self, xi: float, average: list[torch.Tensor]) -> None:
        for model in self.models:
            assign(model, [xi * own + (1 - xi) * other for own, other in zip(weights(model), average)])

    def run(self, steps: int) -> list[dict[str, torch.Tensor]]:
        (self.local_sgd if self.case.strategy == "localsgd" else self.dasgd)(steps)
        return [state(model) for model in self.models]


def farthest(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    assert found.keys() == wanted.keys()
    return max(float((found[name] - value).abs().max()) for name, value in wanted.items())


@pytest.mark.parametrize("name", CASES)
def test_four_workers_train_as_the_reference(name, found):
    case = CASES[name]
    close = 1e-5 if name in SINGLE else 1e-9
    for when, steps in (("rounds", case.steps), ("cut short", case.steps + 1)):
        wanted = Reference(case).run(steps)
        for rank in range(WORKERS):  # each worker's batch-norm statistics are compared too
            assert farthest(found[rank][name][when], wanted[rank]) < close, (rank, when)


@pytest.mark.parametrize("name", CASES)
def test_what_is_left_at_the_end_is_the_average(name, found):
    ends = [rank[name] for rank in found]
    names = [key for key, _ in CASES[name].model().named_parameters()]
    average = {key: sum(end["cut short"][key] for end in ends) / WORKERS for key in names}
    for end in ends:
        wanted = end["cut short"] if name.endswith(" 1.0") else end["cut short"] | average
        assert farthest(end["finished"], wanted) < (1e-5 if name in SINGLE else 1e-9)


def test_the_reference_can_tell(found):
    def off(name, **knobs):
        case = CASES[name]
        other = Reference(Case(case.strategy, case.knobs | knobs, case.optimizer)).run(case.steps)
        return farthest(found[0][name]["rounds"], other[0])

    assert off("local", tau=4) > 1e-4
    assert off("slowmo", outer_momentum=0.4) > 1e-4
    assert off("diloco", outer_lr=0.6) > 1e-4
    assert off("dasgd 2 0.25", delay=1) > 1e-4
    assert off("dasgd 2 0.25", xi=0.3) > 1e-4


def test_workers_drift_and_meet(found):
    for name, apart in (("local", False), ("dasgd 0 0.0", False), ("dasgd 0 0.25", True), ("dasgd 2 0.0", True)):
        first, other = (found[rank][name]["rounds"]["score.weight"] for rank in (0, 1))
        assert torch.equal(first, other) is not apart


def test_statistics_stay_each_workers_own(found):
    for name in ("local", "diloco", "dasgd 0 0.0"):
        means = [rank[name]["finished"]["norm.running_mean"] for rank in found]
        assert all(float((one - other).abs().max()) > 1e-6 for one in means for other in means if one is not other)


def test_frozen_and_unused_layers_stay_as_worker_0_had_them(found):
    fresh = CASES["local"].make()[0].state_dict()
    for rank in found:
        assert torch.equal(rank["local"]["finished"]["frozen.weight"], fresh["frozen.weight"])
        assert farthest({"": rank["local"]["finished"]["unused.weight"]}, {"": fresh["unused.weight"]}) < 1e-12


def test_methods_meet_in_local_sgd(found):
    # What FACTS of the methods say of their ends: no waiting for an average that is taken whole is local SGD.
    for rank in found:
        assert farthest(rank["dasgd 0 0.0"]["rounds"], rank["local"]["rounds"]) < 1e-12


def test_nobody_waits_for_an_average_that_is_not_due(found):
    # Worker 1 sends its second average half a second late: the others take both steps of the delay, then wait for it.
    punctual, late = found[0]["late dasgd"], found[1]["late dasgd"]
    assert sum(punctual["step"][7:9]) < 0.25
    assert punctual["exposed"][9] == pytest.approx(0.5, abs=0.25)
    assert sum(punctual["exposed"]) - punctual["exposed"][9] < 0.1
    assert late["exposed"][9] < 0.1  # all others are there
    assert [step for step, hidden in enumerate(punctual["hidden"]) if hidden > 0] == [5, 9]
    assert all(hidden < 0.3 for hidden in punctual["hidden"])


def test_local_sgd_waits_at_the_end_of_a_round(found):
    punctual = found[0]["late localsgd"]
    assert punctual["exposed"][7] == pytest.approx(0.5, abs=0.25)
    assert [step for step, exposed in enumerate(punctual["exposed"]) if exposed > 0] == [3, 7, 11]
    assert not any(punctual["hidden"])


def test_a_users_loop_trains_as_the_runner(found):
    case = CASES["local"]
    wanted = Reference(case).run(3 * case.tau)
    for rank in range(WORKERS):
        assert farthest(found[rank]["user local"], wanted[rank]) < 1e-9


def test_a_users_unequal_batches_weigh_by_their_samples(found):
    case = CASES["local"]
    model, optimizer = case.make()
    own = [dict(model.named_buffers()) for _ in range(WORKERS)]
    own = [{name: buffer.clone() for name, buffer in buffers.items()} for buffers in own]
    for step in range(3 * case.tau):
        batches = [case.batch(rank, step) for rank in range(WORKERS)]
        total = sum(len(inputs) for inputs, _ in batches)
        set_rate(optimizer, case.lr(step))
        optimizer.zero_grad()
        for (inputs, targets), buffers in zip(batches, own):
            model.load_state_dict(buffers, strict=False)
            (nn.functional.cross_entropy(model(inputs), targets, reduction="sum") / total).backward()
            buffers.update({name: buffer.clone() for name, buffer in model.named_buffers()})
        optimizer.step()
    for rank in range(WORKERS):
        model.load_state_dict(own[rank], strict=False)
        assert farthest(found[rank]["user allreduce"], state(model)) < 1e-9


def test_validation_is_of_worker_0s_weights_and_leaves_the_others_theirs(found):
    case = CASES["local single precision"]
    model = case.make(seed=0)[0].eval()
    images = torch.randn(30, 2, 6, 6, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        loss = float(nn.functional.cross_entropy(model(images), torch.arange(30) % 5))
    for rank in range(WORKERS):
        assert found[rank]["evaluated"]["loss"] == pytest.approx(loss, rel=1e-5)
        assert farthest(found[rank]["evaluated"]["state"], case.make(seed=rank)[0].state_dict()) == 0


def test_models_here_are_in_channels_last_memory():
    assert not Net().conv.weight.is_contiguous()
