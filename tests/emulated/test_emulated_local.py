"""Averages of weights between emulated hosts: hidden behind local steps as far as the delay allows, and no further."""

import pytest
from labs import flat

from handmade import profile
from paceline.cluster.emulate.standin import stand_in
from paceline.job.job import read_job
from paceline.job.resolve import Case, load_case
from paceline.launcher.launch import Order, launch_order
from paceline.launcher.run import Run
from paceline.predictor.predict import Length, predict
from paceline.strategy.registry import make_plan

STEP = 0.098  # of the profile: three layers of 30 ms, and 8 ms around them
HOSTS, TAU, STEPS = 4, 4, 24
# A ring moves 1.5 times the 3 MiB of weights; of what the shaper counts 95.6 % are payload.
AVERAGE = 1.5 * 3 * 2**20 * 8 / 250e6 / 0.956


def trained(home, strategy: str, **knobs) -> Run:
    cluster = stand_in(flat(HOSTS, network=250))
    made = load_case(read_job(None, ["model.name=cnn", "train.batch_per_device=8", f"train.steps={STEPS}"]))
    plan = make_plan(strategy, HOSTS, 8, {"tau": TAU, **knobs})
    times = profile()
    prediction = predict(times, cluster, plan, Length(STEPS * HOSTS * 8))
    case = Case(made.job, made.source, cluster)
    order = Order(case, prediction, 1, "virtual", unused_parameters=False, hosts=cluster, profile=times)
    return launch_order(order, home=home)


@pytest.mark.slow
@pytest.mark.late
@pytest.mark.parametrize(
    ("strategy", "knobs", "exposed"),
    [
        ("dasgd", {"delay": 2}, 0.0),  # 0.16 s behind two steps of 0.098 s
        ("dasgd", {"delay": 1}, AVERAGE - STEP),
        ("localsgd", {}, AVERAGE),
    ],
    ids=["hidden", "late", "awaited"],
)
def test_what_a_round_waits_for(emulation, tmp_path, strategy, knobs, exposed):
    run = trained(tmp_path, strategy, **knobs)
    assert run.step_seconds == pytest.approx(STEP + exposed / TAU, rel=0.08)
    assert run.breakdown.communication == pytest.approx(exposed / TAU, abs=0.1 * STEP)
    assert run.error == pytest.approx(0, abs=0.1)
    hidden = sum(worker.hidden_seconds for worker in run.workers) / HOSTS
    assert hidden == pytest.approx((AVERAGE - exposed) / TAU, rel=0.2, abs=1e-6)
