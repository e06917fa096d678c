"""Jobs whose workers average weights: shards, schedule, epochs until steps are local, and what is saved."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from launching import job, launch_many
from paceline.data.shard import epoch_order, shard, steps_per_epoch
from paceline.data.source import load_data
from paceline.job.job import Job
from paceline.launcher.folder import RunFolder
from paceline.model.source import load_model
from paceline.train.record import EpochRecord, StepRecord, read_records
from paceline.train.schedule import learning_rate, schedule_for

TESTS = Path(__file__).parent.parent
WORKERS = 2
# 87 samples in global batches of 16: five whole ones and one of 7, of which the workers get 4 and 3; 18 steps.
RECIPE = {"batch_per_device": 8, "epochs": 3, "lr": 0.05, "momentum": 0.9, "schedule": "one-cycle", "precision": "fp64"}
PLANS = {
    "post-local": {"strategy": "localsgd", "tau": 5, "start": 1},  # its last round is cut short
    "dasgd": {"strategy": "dasgd", "tau": 4, "delay": 2, "xi": 0.25},
}


def made(plan: dict) -> Job:
    return job(WORKERS, {"data": {"name": "digits", "samples": 87}, "train": RECIPE, "plan": plan})


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, RunFolder]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS), prepend=":")
        return launch_many(tmp_path_factory.mktemp("runs"), WORKERS, {name: made(plan) for name, plan in PLANS.items()})


def reference(of: Job) -> dict[str, torch.Tensor]:
    """Train both workers' models in this process and return the average, with worker 0's statistics."""
    spec, plan = of.spec.train, of.spec.plan
    source = load_model(of.spec.model, of.where, of.base)
    samples = load_data(of.spec.data, source.inputs, source.targets).train
    models, optimizers = [], []
    for _ in range(WORKERS):
        torch.manual_seed(spec.seed)
        models.append(source.build().double().train())
        optimizers.append(torch.optim.SGD(models[-1].parameters(), spec.lr, spec.momentum))
    each = steps_per_epoch(len(samples), 16, WORKERS)
    schedule = schedule_for(spec, 16, WORKERS, each)
    first = plan.get("start", 0) * each
    stale = None
    for step in range(spec.epochs * each):
        epoch, place = divmod(step, each)
        order = epoch_order(len(samples), spec.seed, epoch)
        for rank, (model, optimizer) in enumerate(zip(models, optimizers)):
            inputs, targets = samples.batch(list(shard(order, 16, WORKERS, rank))[place].indices)
            optimizer.param_groups[0]["lr"] = learning_rate(schedule, step)
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs.double()), targets).backward()
            optimizer.step()
        local = step - first
        if plan["strategy"] == "localsgd":
            if local < 0 or local % plan["tau"] == plan["tau"] - 1:
                merge(models, 0.0, average(models))
        else:
            if stale and local % plan["tau"] == plan["delay"] - 1:
                merge(models, plan["xi"], stale)
            if local % plan["tau"] == plan["tau"] - 1:
                stale = average(models)
    merge(models, 0.0, average(models))
    return models[0].state_dict()


def average(models: list[torch.nn.Module]) -> list[torch.Tensor]:
    with torch.no_grad():
        return [sum(same) / len(models) for same in zip(*(model.parameters() for model in models))]


def merge(models: list[torch.nn.Module], keep: float, other: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for model in models:
            for own, value in zip(model.parameters(), other):
                own.copy_(keep * own + (1 - keep) * value)


@pytest.mark.parametrize("name", PLANS)
def test_a_job_trains_as_the_reference(name, folders):
    found = torch.load(folders[name].path / "model.pt", weights_only=True)
    wanted = reference(made(PLANS[name]))
    assert found.keys() == wanted.keys()
    assert max(float((found[key] - value).abs().max()) for key, value in wanted.items()) < 1e-9


@pytest.mark.parametrize("name", PLANS)
def test_the_last_validation_is_of_what_is_saved(name, folders):
    of = made(PLANS[name])
    source = load_model(of.spec.model, of.where, of.base)
    samples = load_data(of.spec.data, source.inputs, source.targets).validation
    model = source.build().double()
    model.load_state_dict(torch.load(folders[name].path / "model.pt", weights_only=True))
    inputs, targets = samples.batch(torch.arange(len(samples)))
    with torch.no_grad():
        loss = float(functional.cross_entropy(model.eval()(inputs.double()), targets))
    epochs = [record for record in read_records(folders[name].records(0)) if isinstance(record, EpochRecord)]
    assert epochs[-1].validation_loss == pytest.approx(loss, rel=1e-9)


def test_the_records_tell_where_rounds_end(folders):
    def steps(name, of):
        records = [r for r in read_records(folders[name].records(1)) if isinstance(r, StepRecord)]
        return [record.step for record in records if of(record) > 0]

    # Every step of the first epoch, then every fifth.
    assert steps("post-local", lambda record: record.exposed_seconds) == [0, 1, 2, 3, 4, 5, 10, 15]
    assert steps("post-local", lambda record: record.hidden_seconds) == []
    assert steps("dasgd", lambda record: record.hidden_seconds) == [5, 9, 13, 17]
