"""paceline converge: the object that scripts rely on, the words, the store, and going on after Ctrl-C."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch

from paceline.cli.main import run
from paceline.store.database import Store

SMALL = ["-s", "model.name=cnn", "-s", "model.input=1x8x8", "-s", "data.name=digits", "-s", "train.batch_per_device=8"]
DASGD = [*SMALL, "-s", "plan.strategy=dasgd", "-s", "train.momentum=0.9", "-s", "train.lr=0.05"]


def test_one_object(answer, desk):
    found = answer("converge", *DASGD, "-s", "train.epochs=3", "--workers", "8", "-o", "found.json")
    assert found["workers"] == 8 and found["plan"]["knobs"] == {"tau": 4, "delay": 2, "xi": 0.25}
    assert [point["epoch"] for point in found["epochs"]] == [0, 1, 2]
    assert found["accuracy"] == max(point["accuracy"] for point in found["epochs"]) > 0.8
    assert found["epochs"][-1]["loss"] == found["loss"] < 0.8 and found["seconds"] > 0
    assert found["epochs"][0]["apart"] > 0
    assert json.loads((desk / "found.json").read_text()) == found
    with Store(desk / "runs" / "paceline.sqlite") as store:
        assert [record.data for record in store.find("convergence")] == [found]


def test_the_answer_comes_first(said):
    text = said("converge", *SMALL, "-s", "train.epochs=1", "-s", "train.lr=0.05", "-n", "4")
    assert text.startswith("cnn/1x8x8 on digits, 4 workers, allreduce (synchronous): ")
    assert "Critical batch by the gradients' noise" in text and max(map(len, text.splitlines())) <= 100


def test_a_sweep_is_a_table(said, answer):
    words = ["converge", *DASGD, "-s", "train.steps=10", "-n", "4", "--sweep", "plan.tau=1,4", "--processes", "1"]
    text = said(*words)
    assert text.startswith("Best: plan.tau 4 with ")
    found = answer(*words)
    assert [cell["values"] for cell in found["cells"]] == [{"plan.tau": "1"}, {"plan.tau": "4"}]
    assert found["cells"][0]["convergence"] is None and "delay" in found["cells"][0]["error"]
    assert found["cells"][1]["convergence"]["steps"] == 10


def test_time_to_accuracy(answer, said):
    words = ["converge", *DASGD, "-s", "train.epochs=2", "-s", "cluster.preset=taito-p100", "-n", "4"]
    found = answer(*words, "--target", "0.5")["target"]
    assert found["seconds"] == found["steps"] * found["step_seconds"] and found["cluster"] == "taito-p100"
    assert "It does not reach 100.00%." in said(*words, "--target", "1", "-s", "train.steps=5")


def test_mistakes_are_sentences(desk, capsys):
    for words, what in (
        (["-n", "0"], "--workers: is 0"),
        (["--target", "2"], "--target: is 2"),
        (["--sweep", "tau=1"], "not of the form"),
        (["-s", "plan.strategy=gpipe"], "plan.strategy: is gpipe"),
        (["-s", "plan.tau=4"], "name the strategy too"),
        (["-s", "plan.strategy=dasgd", "-s", "plan.delay=9"], "plan.delay: is 9"),
        (["--target", "0.5", "--sweep", "workers=2"], "leave --sweep or --target out"),
    ):
        assert run(["converge", *SMALL, *words]) == 2
        assert what in capsys.readouterr().err


def interrupted(words, until):
    """Start a command, press Ctrl-C once something holds, and return its code and what it said."""
    task = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not until() and task.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    task.send_signal(signal.SIGINT)
    _, err = task.communicate(timeout=60)
    return task.returncode, err


@pytest.mark.slow
def test_after_an_interruption_the_same_command_goes_on(desk):
    program = "import sys; from paceline.cli.main import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", program, "converge", *DASGD, "-s", "train.epochs=4000", "-n", "4", "--json"]
    code, err = interrupted(words, lambda: list(desk.glob("runs/converge/*/state.pt")))
    assert code == 130 and "the same command goes on" in err
    (path,) = desk.glob("runs/converge/*/state.pt")
    state, written = torch.load(path, weights_only=True), path.stat().st_mtime_ns
    assert 0 < state["step"] < 4000 * 51 and state["weights"].shape[0] == 4
    code, _ = interrupted(words, lambda: path.stat().st_mtime_ns != written)
    later = torch.load(path, weights_only=True)
    assert code == 130 and later["step"] > state["step"]
    assert json.loads(later["points"])[0] == json.loads(state["points"])[0]
