"""Workers that average gradients reach the weights of one process that trains their shards one after the other."""

import math
import os
from pathlib import Path

import pytest
import torch

from launching import Launched, job, launch, launch_many
from paceline.data.shard import epoch_order, shard, steps_per_epoch
from paceline.data.source import load_data
from paceline.job.job import Job
from paceline.model.source import load_model
from paceline.train.schedule import learning_rate, schedule_for
from paceline.workload.lamb import Lamb

TESTS = Path(__file__).parent.parent
# 87 samples in global batches of 16: five whole ones and one of 7, of which two workers get 4 and 3; 24 steps.
RECIPE = {
    "batch_per_device": 8,
    "epochs": 4,
    "lr": 0.05,
    "lr_reference_batch": 16,
    "scaling": "linear",
    "momentum": 0.9,
    "weight_decay": 1e-3,
    "warmup": "gradual",
    "warmup_epochs": 2,
    "precision": "fp64",
    "seed": 3,
}
BRANCHES = """
import torch
from torch import nn

class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.idle = nn.Linear(64, 10), nn.Linear(64, 10)
        self.norm = nn.BatchNorm1d(64)

    def forward(self, images):
        return self.left(self.norm(images.flatten(1)))
"""


def reference(made: Job, workers: int, whose: int = 0) -> dict[str, torch.Tensor]:
    """Train a job in this process: every worker's shard through one model, with the worker's own buffers.

    Returns the weights, and the buffers of worker ``whose``.
    """
    spec, plan = made.spec.train, made.spec.plan
    source = load_model(made.spec.model, made.where, made.base)
    samples = load_data(made.spec.data, source.inputs, source.targets).train
    torch.set_num_threads(1)
    torch.manual_seed(spec.seed)
    dtype = torch.float64 if spec.precision == "fp64" else torch.float32
    model = source.build().to(dtype=dtype).train()
    if spec.optimizer == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), spec.lr, spec.momentum, weight_decay=spec.weight_decay)
    elif spec.optimizer == "lamb":
        thin = {"params": [p for p in model.parameters() if p.ndim < 2], "adapt": False}
        wide = {"params": [p for p in model.parameters() if p.ndim > 1]}
        optimizer = Lamb([wide, thin], spec.lr, weight_decay=spec.weight_decay)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), spec.lr, weight_decay=spec.weight_decay)
    own = [{name: buffer.clone() for name, buffer in model.named_buffers()} for _ in range(workers)]
    batch = spec.batch_per_device * workers * plan.get("accumulate", 1)
    schedule = schedule_for(spec, batch, workers, steps_per_epoch(len(samples), batch, workers))
    step = 0
    for epoch in range(spec.epochs):
        order = epoch_order(len(samples), spec.seed, epoch)
        for shards in zip(*(shard(order, batch, workers, worker) for worker in range(workers))):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(schedule, step)
            optimizer.zero_grad()
            for part, buffers in zip(shards, own):
                model.load_state_dict(buffers, strict=False)
                for some in part.indices.tensor_split(math.ceil(len(part.indices) / spec.batch_per_device)):
                    inputs, targets = samples.batch(some)
                    smoothing = spec.label_smoothing
                    loss = torch.nn.functional.cross_entropy(
                        model(inputs.to(dtype)), targets, label_smoothing=smoothing
                    )
                    (loss * (len(some) / part.global_count)).backward()
                buffers.update({name: buffer.clone() for name, buffer in model.named_buffers()})
            if spec.clip_norm:
                length = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm()
                for parameter in model.parameters():
                    parameter.grad *= min(1.0, spec.clip_norm / float(length + 1e-6))
            optimizer.step()
            step += 1
    model.load_state_dict(own[whose], strict=False)
    return model.state_dict()


def recipe(workers: int, base: Path | None = None, model=None, plan=None, **train) -> Job:
    tables = {"data": {"samples": 87}, "train": RECIPE | train, "plan": plan or {}, "model": model or {}}
    return job(workers, tables, base)


def farthest(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    """The largest difference of any parameter or buffer, over that tensor's largest value."""
    assert found.keys() == wanted.keys()
    return max(
        float((found[name] - value).abs().max() / max(float(value.abs().max()), 1e-3)) for name, value in wanted.items()
    )


SYNCHRONOUS = {
    "overlap": {},
    "buckets": {"bucket_mb": 0.01},
    "accumulate": {"bucket_mb": 0.01, "accumulate": 2},
    "barrier": {"overlap": False, "bucket_mb": 0.01},
    "barrier accumulate": {"overlap": False, "accumulate": 2},
}
COMPRESSED = {
    f"{compression} {name}": {"compression": compression, "overlap": overlap}
    for compression in ("fp16", "bf16")
    for name, overlap in (("overlap", True), ("barrier", False))
}
SHORT = {"precision": "fp32", "epochs": 1, "warmup": "none"}
IDLE = {"name": "branches.py:Branches", "input": "1x8x8"}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory) -> dict[str, Job]:
    base = tmp_path_factory.mktemp("user")
    (base / "branches.py").write_text(BRANCHES)
    return (
        {name: recipe(2, plan=plan) for name, plan in SYNCHRONOUS.items()}
        | {name: recipe(2, plan=plan, **SHORT) for name, plan in ({"plain": {}} | COMPRESSED).items()}
        | {
            "fp32": recipe(2, precision="fp32"),
            "adamw": recipe(2, optimizer="adamw", momentum=0.0, lr=1e-3),
            "lamb": recipe(2, optimizer="lamb", momentum=0.0, lr=1e-2),
            "clipped": recipe(2, plan={"accumulate": 2}, clip_norm=0.3),
            "smoothed": recipe(2, label_smoothing=0.1),
            "idle overlap": recipe(2, base, IDLE),
            "idle barrier": recipe(2, base, IDLE, {"overlap": False}),
        }
    )


@pytest.fixture(scope="module")
def weights(jobs, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
        folders = launch_many(tmp_path_factory.mktemp("runs"), 2, jobs)
    return {name: torch.load(folder.path / "model.pt", weights_only=True) for name, folder in folders.items()}


@pytest.mark.parametrize("name", [*SYNCHRONOUS, "adamw", "lamb", "clipped", "smoothed", "idle overlap", "idle barrier"])
def test_two_workers_train_as_one_process(name, jobs, weights):
    assert farthest(weights[name], reference(jobs[name], 2)) < 1e-9


def test_in_single_precision_up_to_rounding(jobs, weights):
    assert farthest(weights["fp32"], reference(jobs["fp32"], 2)) < 1e-4


def test_the_reference_can_tell(jobs, weights):
    # Batch norm over the whole batch, another seed and the other worker's statistics are all something else.
    found = weights["overlap"]
    assert farthest(found, reference(jobs["overlap"], 1)) > 1e-3
    assert farthest(found, reference(recipe(2, seed=4), 2)) > 1e-3
    assert farthest(found, reference(jobs["overlap"], 2, whose=1)) > 1e-3
    assert farthest(found, weights["accumulate"]) > 1e-3


def test_what_nobody_uses_stays_as_it_was(jobs, weights):
    source = load_model(jobs["idle barrier"].spec.model, "job", jobs["idle barrier"].base)
    torch.manual_seed(RECIPE["seed"])
    fresh = source.build().double().state_dict()
    for name in ("idle overlap", "idle barrier"):
        assert torch.equal(weights[name]["idle.weight"], fresh["idle.weight"])  # weight decay has not touched it
        assert not torch.equal(weights[name]["left.weight"], fresh["left.weight"])


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_gradients_lead_nearby(name, jobs, weights):
    # fp16 keeps 11 bits and bf16 8: each gradient is off by some 2e-4 or 2e-3 of its size, and the path amplifies it.
    source = load_model(jobs[name].spec.model)
    torch.manual_seed(RECIPE["seed"])
    start, plain, found = (
        torch.cat([state[key].flatten() for key, _ in source.build().named_parameters()])
        for state in (source.build().state_dict(), weights["plain"], weights[name])
    )
    off = float((found - plain).norm() / (plain - start).norm())
    assert 1e-6 < off < (0.005 if name.startswith("fp16") else 0.05), off


def test_four_workers_train_as_one_process(tmp_path):
    # 90 = 5 x 16 + 10: the last batch is 3 + 3 + 2 + 2.
    tables = {"data": {"samples": 90}, "train": RECIPE | {"batch_per_device": 4}}
    run = launch(tmp_path, 4, **tables)
    assert farthest(run.weights(), reference(job(4, tables), 4)) < 1e-9
    check_shares(run, workers=4, samples=90, epochs=4)


def check_shares(run: Launched, workers: int, samples: int, epochs: int) -> None:
    """Every sample of an epoch is trained by one worker, and the workers' shares make up every step."""
    steps = [run.steps(rank) for rank in range(workers)]
    assert len({len(worker) for worker in steps}) == 1
    for together in zip(*steps):
        assert sum(record.share for record in together) == pytest.approx(1, abs=1e-12)
        assert len({(record.step, record.epoch, record.lr) for record in together}) == 1
    for epoch in range(epochs):
        assert sum(r.samples for worker in steps for r in worker if r.epoch == epoch) == samples


def test_one_worker_trains_exactly_as_one_process(tmp_path):
    tables = {"data": {"samples": 87}, "train": RECIPE | {"precision": "fp32"}}
    run = launch(tmp_path, 1, **tables)
    wanted = reference(job(1, tables), 1)
    assert all(torch.equal(run.weights()[name], value) for name, value in wanted.items())
