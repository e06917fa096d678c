"""``python -m sharded_save FOLDER`` under torch's agent: a model in shards (FSDP2) saves itself, and loads a plain one.

FOLDER/plain is a shelf with a checkpoint of the whole model; FOLDER/sharded gets one of the shards after a step, and
FOLDER/after.pt the weights and momenta that it must hold.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from paceline.train.checkpoint.manifest import Manifest, Position
from paceline.train.checkpoint.save import Place, Saver
from paceline.train.checkpoint.shelf import newest_whole
from paceline.train.checkpoint.state import live_tensors, prepare_optimizer
from paceline.train.checkpoint.storage import load


def model(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 3))


def optimizer_of(made: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(made.parameters(), lr=0.1, momentum=0.9)


def train_step(made: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    made(torch.ones(4, 7)).square().mean().backward()
    optimizer.step()


def whole(state):
    return {name: value.full_tensor() if hasattr(value, "full_tensor") else value for name, value in state.items()}


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    rank, workers = dist.get_rank(), dist.get_world_size()
    made = model(seed=99)
    fully_shard(made)
    optimizer = optimizer_of(made)
    found = newest_whole(folder / "plain", print)
    prepare_optimizer(made, optimizer, set(found.manifest.tensors))
    load(found.folder, found.manifest, live_tensors(made, optimizer))
    loaded = whole(live_tensors(made, optimizer))
    train_step(made, optimizer)
    state = live_tensors(made, optimizer)
    saver = Saver(Place(folder / "sharded", rank, workers, "0-0", keep=3))
    saver.save(state, Manifest({}, {}, workers=workers, position=Position(2)))
    saver.wait()
    after = whole(state)
    if rank == 0:
        torch.save({"loaded": loaded, "after": after}, folder / "after.pt")
    dist.barrier()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    from paceline.launcher.worker import end

    end(0)
