"""Four simulated workers reach the weights of four real processes, with the same seeds and data, after five rounds."""

from pathlib import Path

import pytest
import torch

from launching import job, launch_many
from paceline.converge.setting import setting_of
from paceline.converge.simulate import Simulation
from paceline.job.job import Job
from paceline.job.resolve import load_case
from paceline.train.schedule import learning_rate

TESTS = Path(__file__).parent.parent
WORKERS = 4
# 330 samples in global batches of 32: ten whole ones and one of 10, of which workers get 3, 3, 2 and 2; 22 steps.
RECIPE = {"batch_per_device": 8, "epochs": 2, "lr": 0.05, "lr_min": 0.005, "momentum": 0.9, "weight_decay": 0.01,
          "schedule": "one-cycle", "precision": "fp64"}  # fmt: skip
PLANS = {
    "allreduce": {"strategy": "allreduce"},
    "localsgd": {"strategy": "localsgd", "tau": 4},
    "post-local": {"strategy": "localsgd", "tau": 2, "start": 1},
    "slowmo": {"strategy": "localsgd", "tau": 4, "outer": "slowmo"},
    "diloco": {"strategy": "localsgd", "tau": 4, "outer": "diloco"},
} | {
    f"dasgd {delay} {xi}": {"strategy": "dasgd", "tau": 4, "delay": delay, "xi": xi}
    for delay in range(5)
    for xi in (0.0, 0.25, 1.0)
    if xi < 1 or delay == 2
}


def made(plan: dict) -> Job:
    return job(WORKERS, {"data": {"name": "digits", "samples": 330}, "train": RECIPE, "plan": plan})


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS), prepend=":")
        return launch_many(tmp_path_factory.mktemp("runs"), WORKERS, {name: made(plan) for name, plan in PLANS.items()})


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_simulated_workers_are_real_ones(launched, name):
    case = load_case(made(PLANS[name]))
    simulation = Simulation(setting_of(case))
    step = 0
    with simulation.crew:
        for epoch in range(RECIPE["epochs"]):
            for batch in simulation.batches(epoch):
                simulation.algorithm.step(batch, learning_rate(simulation.schedule, step), step)
                step += 1
    assert step == 22
    real = torch.load(launched[name].path / "model.pt", weights_only=True)
    found = simulation.people.module_at(simulation.algorithm.answer()).state_dict()
    assert found.keys() == real.keys()
    for key, value in real.items():
        torch.testing.assert_close(found[key], value, rtol=1e-5, atol=1e-7, msg=f"{name}: {key}")
