"""profile, predict, recommend, launch: the fields that scripts rely on, and files that pass from one to the next."""

import json
import subprocess
import sys
import time

import pytest

ON_P100 = ["-s", "model.name=resnet50", "-s", "cluster.preset=taito-p100", "-s", "data.samples=20480"]
SMALL = ["-s", "model.name=cnn", "-s", "data.samples=4096"]
P100 = ["-s", "cluster.preset=taito-p100"]
PREDICTION = {
    "plan", "devices", "step_seconds", "step_seconds_range", "samples_per_second", "epoch_seconds", "breakdown",
    "memory_bytes", "memory", "fits", "bottleneck", "cost", "source",
}  # fmt: skip
LAYER = {
    "name", "kind", "flops", "parameters", "parameter_bytes", "kept_bytes", "output_bytes", "forward_seconds",
    "backward_seconds",
}  # fmt: skip


def check_prediction(found):
    assert found.keys() >= PREDICTION
    low, high = found["step_seconds_range"]
    assert 0 < low <= found["step_seconds"] <= high
    assert found["breakdown"].keys() == {"compute", "communication", "bubble", "overhead", "data"}
    assert sum(found["breakdown"].values()) == pytest.approx(found["step_seconds"], rel=1e-6)
    assert sum(found["memory"].values()) == found["memory_bytes"] > 0
    assert found["plan"].keys() >= {"kind", "version", "strategy", "devices", "knobs"} or "strategy" in found["plan"]


def test_profile(answer):
    found = answer("profile", *ON_P100)
    assert found.keys() >= {"layers", "step_seconds", "samples_per_second", "device", "source"}
    assert all(layer.keys() >= LAYER for layer in found["layers"])
    assert sum(layer["parameters"] for layer in found["layers"]) == found["parameters"] == 25_557_032
    assert found["device"] == "p100" and found["source"] == "modelled"
    assert found["samples_per_second"] == pytest.approx(found["batch"] / found["step_seconds"])


def test_profile_measured(answer):
    job = [*SMALL, "-s", "model.input=1x8x8", "-s", "cluster.devices_per_host=1"]
    found = answer("profile", *job, "--seconds", "0.1", "--batches", "16")
    assert found["source"] == "measured" and {b["batch"] for b in found["batches"]} == {16, 32}
    assert all(layer.keys() >= LAYER for layer in found["layers"])


def test_predict(answer):
    found = answer("predict", *ON_P100, "-s", "plan.strategy=allreduce")
    check_prediction(found)
    assert found["devices"] == 32 and found["global_batch"] == 1024 and found["epoch_steps"] == 20
    assert found["plan"]["strategy"] == "allreduce" and found["fits"] is True and found["cost"] is None


def test_predict_answers_within_a_second(answer):
    import torch  # noqa: F401 - not part of the answer

    answer("predict", *SMALL, *P100)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        answer("predict", *ON_P100, "-s", "plan.strategy=allreduce")
        times.append(time.perf_counter() - began)
    assert min(times) < 1


def test_recommend(answer):
    found = answer("recommend", *SMALL, *P100)
    assert found.keys() >= {"plans", "dropped", "sensitivity", "seconds_spent"}
    for plan in found["plans"]:
        check_prediction(plan)
    kept = [p["epoch_seconds"] for p in found["plans"] if p["changes_update"] is None]
    assert kept[0] <= min(kept) * 1.005
    assert all(drop["reason"] and drop["plan"] for drop in found["dropped"])


@pytest.mark.parametrize(("objective", "value"), [("time", "epoch_seconds"), ("memory", "memory_bytes")])
def test_recommend_by_an_objective(answer, objective, value):
    plans = answer("recommend", *SMALL, *P100, "--objective", objective, "--keep-batch")["plans"]
    kept = [plan[value] for plan in plans if plan["changes_update"] is None]
    assert kept[0] <= min(kept) * 1.005


def test_launch_without_starting(answer, desk):
    job = [*SMALL, "-s", "profile.throughput=1000.0", "-s", "plan.strategy=single"]
    check_prediction(answer("launch", *job, "--dry-run"))
    assert not list(desk.iterdir())


def test_the_same_numbers_in_words(said, answer):
    words = said("predict", *ON_P100, "-s", "plan.strategy=allreduce")
    found = answer("predict", *ON_P100, "-s", "plan.strategy=allreduce")
    assert f"{found['samples_per_second']:,.0f} images/s" in words
    assert " on taito-p100, allreduce on 32 devices" in words.splitlines()[0]
    assert max(map(len, words.splitlines())) <= 100
    assert "100.0%" in words and "Layer times: modelled." in words


def test_a_trace(said, desk):
    said("predict", *ON_P100, "-s", "plan.strategy=allreduce", "--trace", "deep/t.json")
    trace = json.loads((desk / "deep" / "t.json").read_text())
    events = trace["traceEvents"]
    played = [event for event in events if event["ph"] == "X"]
    assert len(played) > 100
    assert all(event["ts"] >= 0 and event["dur"] >= 0 and event["name"] for event in played)
    assert {"pid", "tid"} <= played[0].keys() and any(event["ph"] == "M" for event in events)
    assert max(event["ts"] + event["dur"] for event in played) > 100_000  # microseconds of a step of 145 ms


def test_a_saved_profile_gives_the_same_prediction(answer, said, desk):
    said("profile", *ON_P100, "-o", "p.json")
    again = answer("predict", *ON_P100, "-s", "plan.strategy=allreduce", "-s", "profile.file=p.json")
    first = answer("predict", *ON_P100, "-s", "plan.strategy=allreduce")
    assert again == first
    # A profile of one cluster's device says something of another cluster of such devices.
    other = ["-s", "cluster.preset=taito-p100", "-s", "cluster.hosts=2", "-s", "profile.file=p.json"]
    assert answer("predict", *ON_P100[:2], *other, "-s", "plan.strategy=allreduce")["devices"] == 8


def test_a_saved_profile_needs_no_torch(said, desk):
    said("profile", *SMALL, *P100, "-o", "p.json")
    program = "import sys; from paceline.cli.main import run; run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    for command in ("predict", "recommend"):
        words = [command, *SMALL, *P100, "-s", "profile.file=p.json"]
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
        assert " on taito-p100" in done.stdout and "torch" not in done.stderr.split()


def test_a_saved_prediction_is_what_was_printed(answer, desk):
    found = answer("predict", *SMALL, *P100, "-o", "prediction.json")
    assert json.loads((desk / "prediction.json").read_text()) == found


def test_a_known_throughput_scales_the_device_model(answer):
    found = answer("profile", *ON_P100, "-s", "profile.throughput=207.79")
    assert found["samples_per_second"] == pytest.approx(207.79, rel=1e-3) and found["source"] == "scaled"


def test_the_best_plan_can_be_launched(answer, desk):
    job = [*SMALL, "-s", "profile.throughput=1000.0", "-s", "cluster.devices_per_host=2"]
    best = answer("recommend", *job, "--keep-batch", "-o", "plan.json")["plans"][0]["plan"]
    saved = json.loads((desk / "plan.json").read_text())
    assert saved == {"kind": "plan", "version": 1} | {key: best[key] for key in saved if key not in ("kind", "version")}
    dry = answer("launch", *job, "--plan", "plan.json", "--dry-run")
    assert dry["plan"] == best


def test_init(said, answer, desk):
    text = said("init", "mine")
    assert "Wrote job.toml, lab.toml, model.py to mine." in text
    check_prediction(answer("predict", "mine/job.toml", "-s", "profile.throughput=4000.0"))
    found = answer("recommend", "mine/job.toml", "--set", "cluster.file=lab.toml")
    assert found["cluster"] == "lab" and found["plans"][0]["cost"]["currency"] == "USD"
    by_cost = answer("recommend", "mine/job.toml", "--set", "cluster.file=lab.toml", "--objective", "cost")["plans"]
    assert by_cost[0]["cost"]["epoch"] <= found["plans"][0]["cost"]["epoch"] * (1 + 1e-12)  # but for rounding
    assert answer("init", "other") == {"folder": "other", "files": ["job.toml", "lab.toml", "model.py"]}
    (desk / "other" / "job.toml").write_text("mine")
    said("init", "other", "--force")
    assert "[model]" in (desk / "other" / "job.toml").read_text()


P100_OF_2 = '[cluster]\npreset = "taito-p100"\nhosts = 2\n'
BUCKETS = '[plan]\nstrategy = "allreduce"\nbucket_mb = 5\n'
EPOCHS = "[train]\nepochs = 3\n"
OVERRIDES = [
    # what the file says, the overrides, epochs in all or None, a field of the prediction and its value
    (EPOCHS, [], 3, None),
    (EPOCHS, ["train.epochs=5"], 5, None),
    (EPOCHS, ["train.epochs=5", "train.epochs=7"], 7, None),
    ('[cluster]\npreset = "dgx-a100"\n', [], None, ("cluster", "dgx-a100")),
    ('[cluster]\npreset = "dgx-a100"\n', ["cluster.preset=taito-p100"], None, ("cluster", "taito-p100")),
    (P100_OF_2, ["plan.strategy=allreduce"], None, ("devices", 8)),
    (P100_OF_2, ["plan.strategy=allreduce", "cluster.hosts=4"], None, ("devices", 16)),
    (P100_OF_2, ["plan.strategy=allreduce", "cluster.preset=taito-p100"], None, ("devices", 32)),
    (P100_OF_2, ["plan.strategy=allreduce", "cluster.hosts=1", "cluster.preset=taito-p100"], None, ("devices", 4)),
    (BUCKETS, ["plan.strategy=single"], None, ("devices", 1)),
    (BUCKETS, ["plan.devices=4"], None, ("devices", 4)),
]


@pytest.mark.parametrize(("text", "overrides", "epochs", "field"), OVERRIDES)
def test_overrides(answer, desk, text, overrides, epochs, field):
    cluster = "" if "[cluster]" in text else '[cluster]\npreset = "taito-p100"\n'
    (desk / "job.toml").write_text(f'[model]\nname = "cnn"\n[data]\nsamples = 4096\n{cluster}{text}')
    found = answer("predict", "job.toml", *(word for item in overrides for word in ("--set", item)))
    if epochs:
        assert found["total_seconds"] == pytest.approx(epochs * found["epoch_seconds"])
    if field:
        assert found[field[0]] == field[1]
