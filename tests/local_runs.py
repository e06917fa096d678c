"""Workers that take local steps, many cases by the same processes: ``python -m local_runs FOLDER`` under torch's agent.

Every rank leaves ``FOLDER/RANK.pt``. What a case is, its models and its data are made here for the reference too.
"""

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import paceline
from paceline.data.samples import TensorSamples
from paceline.model.source import ModelSource
from paceline.model.spec import InputSpec, TargetSpec
from paceline.strategy.contract import RunSetting
from paceline.strategy.registry import find_strategy, make_plan
from paceline.train.evaluate import evaluate

WORKERS = 4
ROUNDS = 5


class Net(nn.Module):
    """Convolution in channels-last memory, batch norm, a frozen layer, an unused one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3).to(memory_format=torch.channels_last)
        self.norm = nn.BatchNorm2d(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.score = nn.Linear(4, 5)
        self.unused = nn.Linear(2, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.score(self.frozen(self.norm(self.conv(images)).relu().mean((2, 3))))


class Mixed(Net):
    """Weights of several types, complex ones among them."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(5, dtype=torch.float32))
        self.turn = nn.Parameter(torch.ones(5, dtype=torch.complex64))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images) * (self.gain * (self.turn * (1 + 0.5j)).real)


@dataclass(frozen=True)
class Case:
    strategy: str
    knobs: dict = field(default_factory=dict)
    optimizer: str = "sgd"
    model: type[nn.Module] = Net
    double: bool = True
    first: int = 0  # the step from which steps are local
    idle: bool = False  # worker 2 has no samples in every other step
    cold: bool = False  # the first two steps have a learning rate of 0

    @property
    def tau(self) -> int:
        return self.knobs["tau"]

    @property
    def steps(self) -> int:
        return self.first + ROUNDS * self.tau

    def lr(self, step: int) -> float:
        return 0.0 if self.cold and step < 2 else 0.05 * (1 + step % 3)

    def batch(self, worker: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        count = 0 if self.idle and worker == 2 and step % 2 else 3 + worker
        source = torch.Generator().manual_seed(1000 * step + worker)
        images = torch.randn(count, 2, 6, 6, dtype=torch.float64, generator=source)
        return (images if self.double else images.float()), torch.randint(5, (count,), generator=source)

    def make(self, seed: int = 0) -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(seed)
        model = self.model()
        for part in (model.conv, model.norm, model.frozen, model.score, model.unused) if self.double else ():
            part.double()
        if self.optimizer == "adamw":
            return model, torch.optim.AdamW(model.parameters(), weight_decay=0.01)
        slow = [p for name, p in model.named_parameters() if name.startswith("score")]
        rest = [p for name, p in model.named_parameters() if not name.startswith("score")]
        groups = [{"params": rest, "scale": 1.0}, {"params": slow, "scale": 0.5}]
        return model, torch.optim.SGD(groups, momentum=0.9, weight_decay=1e-3)


def set_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("scale", 1.0)


LOCAL = {"tau": 3}
CASES = {
    "local": Case("localsgd", LOCAL),
    "local adamw": Case("localsgd", LOCAL, "adamw"),
    "local single precision": Case("localsgd", LOCAL, double=False),
    "local every step": Case("localsgd", {"tau": 1}),
    "local idle": Case("localsgd", LOCAL, idle=True),
    "local mixed": Case("localsgd", LOCAL, model=Mixed, double=False),
    "post-local": Case("localsgd", {**LOCAL, "start": 2}, first=8),
    "slowmo": Case("localsgd", {**LOCAL, "outer": "slowmo"}),
    "slowmo cold": Case("localsgd", {"tau": 1, "outer": "slowmo"}, cold=True),
    "slowmo constants": Case("localsgd", {**LOCAL, "outer": "slowmo", "outer_lr": 0.8, "outer_momentum": 0.0}),
    "post-local slowmo": Case("localsgd", {**LOCAL, "start": 2, "outer": "slowmo"}, first=8),
    "diloco": Case("localsgd", {**LOCAL, "outer": "diloco"}, "adamw"),
    "diloco constants": Case("localsgd", {**LOCAL, "outer": "diloco", "outer_lr": 0.5, "outer_momentum": 0.3}),
    **{
        f"dasgd {delay} {xi}": Case("dasgd", {"tau": 3, "delay": delay, "xi": xi})
        for delay in range(4)
        for xi in (0.0, 0.25, 1.0)
    },
    "dasgd single precision": Case("dasgd", {"tau": 4, "delay": 2, "xi": 0.25}, double=False),
    "dasgd mixed": Case("dasgd", {"tau": 4, "delay": 2, "xi": 0.25}, model=Mixed, double=False),
    "dasgd idle": Case("dasgd", {"tau": 2, "delay": 1, "xi": 0.25}, "adamw", idle=True),
}


def setting_of(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, precision: str) -> RunSetting:
    return RunSetting(
        model=model,
        optimizer=optimizer,
        loss=nn.functional.cross_entropy,
        device=torch.device("cpu"),
        precision=precision,
        rank=rank,
        workers=WORKERS,
        epoch_steps=4,
    )


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def trained(case: Case, rank: int) -> dict[str, dict[str, torch.Tensor]]:
    """Run a case and return what this rank has after its rounds, after one step more, and at the end."""
    model, optimizer = case.make(seed=rank)  # worker 0's weights become all workers'
    plan = make_plan(case.strategy, WORKERS, 8, case.knobs)
    runner = find_strategy(case.strategy).runner(plan, setting_of(model, optimizer, rank, "own"))
    found = {}
    for step in range(case.steps + 1):
        set_rate(optimizer, case.lr(step))
        runner.step(*case.batch(rank, step), 0.0)
        if step == case.steps - 1:
            found["rounds"] = state(model)
    found["cut short"] = state(model)
    runner.finish()
    return found | {"finished": state(model)}


def late(strategy: str, rank: int, **knobs: float) -> dict[str, list[float]]:
    """Seconds of each step of three rounds of four, where worker 1 ends the second one half a second late."""
    model = nn.Linear(1000, 100)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    setting = setting_of(model, optimizer, rank, "fp32")
    runner = find_strategy(strategy).runner(make_plan(strategy, WORKERS, 8, {"tau": 4, **knobs}), setting)
    found: dict[str, list[float]] = {"step": [], "exposed": [], "hidden": []}
    dist.barrier()
    for step in range(12):
        if rank == 1 and step == 7:
            time.sleep(0.5)
        began = time.perf_counter()
        runner.step(torch.randn(4, 1000), torch.randint(100, (4,)), 0.25)
        found["step"].append(time.perf_counter() - began)
        found["exposed"].append(runner.exposed_seconds())
        found["hidden"].append(runner.hidden_seconds())
    runner.finish()
    return found


def users_loop(strategy: str, rank: int, **knobs: float) -> dict[str, torch.Tensor]:
    """A user's own loop around a trainer: three rounds of the case "local"."""
    case = CASES["local"]
    model, optimizer = case.make(seed=rank)
    made = paceline.trainer(model, optimizer, plan=strategy, unused_parameters=True, **knobs)
    for step in range(3 * case.tau):
        set_rate(optimizer, case.lr(step))
        made.step(case.batch(rank, step), nn.functional.cross_entropy)
    made.finish()
    return state(made.model)


def evaluated_apart(rank: int) -> dict:
    """Evaluate worker 0's model where all have weights of their own; return the score and what this worker then has."""
    model, _ = CASES["local single precision"].make(seed=rank)
    source = ModelSource("net", "user", InputSpec((2, 6, 6), "float32"), TargetSpec("class", 5), Net)
    images = torch.randn(30, 2, 6, 6, generator=torch.Generator().manual_seed(1))
    score = evaluate(
        source,
        model,
        TensorSamples(images, torch.arange(30) % 5),
        batch=4,
        precision="fp32",
        device=torch.device("cpu"),
        rank=rank,
        workers=WORKERS,
        drifted=True,
    )
    return {"loss": score.loss, "state": state(model)}


def main(folder: Path) -> None:
    from paceline.launcher import worker  # not above: it sets up the process that imports it

    torch.set_num_threads(1)
    rank = int(worker.os.environ["RANK"])
    # The first makes the process group.
    found: dict = {"user local": users_loop("localsgd", rank, tau=3), "user allreduce": users_loop("allreduce", rank)}
    found |= {name: trained(case, rank) for name, case in CASES.items()}
    found["late dasgd"] = late("dasgd", rank, delay=2)
    found["late localsgd"] = late("localsgd", rank)
    found["evaluated"] = evaluated_apart(rank)
    torch.save(found, folder / f"{rank}.pt")
    worker.end(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
