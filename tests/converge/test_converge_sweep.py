"""Sweeps: axes, cells that are kept, and cells that make no sense."""

import pytest

from paceline.converge import sweep
from paceline.converge.sweep import Axis, Order, combinations, parse_axis, run_sweep
from paceline.errors import FileError

JOB = ("model.name=mlp", "model.input=1x8x8", "data.name=digits", "data.samples=200", "train.batch_per_device=8",
       "train.steps=4", "plan.strategy=dasgd", "plan.tau=2", "plan.delay=1")  # fmt: skip


def order(folder, *texts, workers=2):
    return Order(None, JOB, tuple(map(parse_axis, texts)), workers, folder)


def swept(made, processes=1):
    heard = []
    found = run_sweep(made, processes, lambda done, cells: heard.append((done, cells)), lambda: False)
    return found, heard


def test_axes_and_their_combinations():
    axes = [parse_axis("plan.tau=1, 2"), parse_axis("workers=4,8")]
    assert axes[0] == Axis("plan.tau", ("1", "2"))
    assert combinations(axes) == [
        {"plan.tau": "1", "workers": "4"}, {"plan.tau": "1", "workers": "8"},
        {"plan.tau": "2", "workers": "4"}, {"plan.tau": "2", "workers": "8"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["plan.tau", "plan.tau=", "tau=1,2", "plan.tau=1,,2", "plan.tau=1,1", "workers=0,2", "=1"]
)
def test_what_is_no_axis(text):
    with pytest.raises(FileError):
        parse_axis(text)


def test_a_key_is_swept_once():
    with pytest.raises(FileError, match="twice"):
        combinations([parse_axis("plan.tau=1"), parse_axis("plan.tau=2")])


def test_cells_follow_their_values(tmp_path):
    found, heard = swept(order(tmp_path, "plan.tau=1,2", "workers=1,3"))
    assert [cell.convergence.workers for cell in found.cells] == [1, 3, 1, 3]
    assert [cell.convergence.plan.knobs["tau"] for cell in found.cells] == [1, 1, 2, 2]
    assert heard[0] == (0, 4) and heard[-1] == (4, 4)


def test_a_cell_that_makes_no_sense_is_a_sentence(tmp_path):
    found, _ = swept(order(tmp_path, "plan.delay=1,5"))
    assert found.cells[0].convergence is not None
    assert found.cells[1].convergence is None and "delay" in found.cells[1].error


def test_cells_that_are_done_are_not_done_again(tmp_path, monkeypatch):
    made = order(tmp_path, "plan.xi=0.0,0.5")
    first, _ = swept(made)
    monkeypatch.setattr(sweep, "run_cell", lambda *args, **keys: pytest.fail("simulated again"))
    again, heard = swept(made)
    assert again == first and heard == [(2, 2)]


@pytest.mark.slow
def test_cells_in_processes_are_the_same(tmp_path):
    one, _ = swept(order(tmp_path / "one", "plan.tau=1,2"))
    two, heard = swept(order(tmp_path / "two", "plan.tau=1,2"), processes=2)
    assert heard[-1] == (2, 2)
    for a, b in zip(one.cells, two.cells):
        assert a.values == b.values and a.convergence.plan == b.convergence.plan
        assert a.convergence.loss == pytest.approx(b.convergence.loss, rel=1e-3)
