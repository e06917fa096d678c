"""Several runs by the same workers, one after the other: to start a process costs more than a small run.

``python -m many_runs FOLDER ...`` under torch's agent trains each run's folder with the code of a real worker; a PATH
that ends in ``.pt`` gets what :func:`evaluated` finds.
"""

import sys
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from paceline.data.samples import TensorSamples
from paceline.launcher.folder import RunFolder
from paceline.model.source import ModelSource
from paceline.model.spec import InputSpec, TargetSpec
from paceline.train.evaluate import evaluate


class Odd(nn.Module):
    """Batch norm beside buffers that Gloo cannot send as they are: complex, boolean, expanded, empty."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.score = nn.Linear(3, 7)
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("turns", torch.ones(3, dtype=torch.complex64))
        self.register_buffer("places", torch.ones(1).expand(4))
        self.register_buffer("nothing", torch.empty(0))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.score(self.norm(inputs * self.mask) * self.turns.real)


def odd_source() -> ModelSource:
    return ModelSource("odd", "user", InputSpec((3,), "float32"), TargetSpec("class", 7), Odd)


def odd_samples(count: int = 29) -> TensorSamples:
    source = torch.Generator().manual_seed(7)
    return TensorSamples(torch.randn(count, 3, generator=source), torch.randint(7, (count,), generator=source))


def odd_model(rank: int) -> nn.Module:
    """A model whose statistics differ between ranks, and whose weights do not."""
    torch.manual_seed(0)
    model = Odd().train()
    model.norm.running_mean += 1 + rank
    model.turns += rank
    return model


def evaluated(path: Path, rank: int, workers: int) -> None:
    """Evaluate ranks' models together and leave the score and rank 1's buffers after it."""
    model = odd_model(rank)
    score = evaluate(
        odd_source(),
        model,
        odd_samples(),
        batch=4,
        precision="fp32",
        device=torch.device("cpu"),
        rank=rank,
        workers=workers,
    )
    assert model.training
    if rank == 1:
        found = {name: buffer.clone() for name, buffer in model.named_buffers()}
        torch.save({"score": [score.loss, score.top1, score.top5], "buffers": found}, path)


def main(paths: list[str]) -> None:
    from paceline.launcher import worker  # not above: it sets up the process that imports it

    begin = dist.init_process_group
    kept = []
    store, rank, workers = next(dist.rendezvous("env://"))
    for number, path in enumerate(paths):
        # A group's keys stay in the store when it ends: each needs a place of its own. And the groups themselves are
        # kept: see paceline.launcher.worker.end.
        place = {"store": dist.PrefixStore(str(number), store), "rank": rank, "world_size": workers}
        dist.init_process_group = partial(begin, **place)
        if path.endswith(".pt"):
            dist.init_process_group("gloo")
            evaluated(Path(path), rank, workers)
        else:
            worker.run(RunFolder(Path(path)), rank, workers)
        if dist.is_initialized():  # one worker alone needs no group
            kept.append(dist.group.WORLD)
            dist.destroy_process_group()
    worker.end(0)


if __name__ == "__main__":
    main(sys.argv[1:])
