"""Launches of other kinds: text, half precision, too few samples for a batch, two at the same time."""

import os
import threading

import pytest

from launching import Launched, launch

TEXT = b"the rider in front breaks the wind, and the line behind saves a third of its strength. " * 40


def environment() -> dict[str, str]:
    """The variables of this process, but for what torch's launcher itself leaves."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> dict[str, Launched]:
    """A text on one worker and few images on two, trained at the same time from one process."""
    home = tmp_path_factory.mktemp("home")
    (home / "text.txt").write_bytes(TEXT)
    kinds = {
        "text": (
            1,
            {
                "model": {"name": "gpt-nano", "input": "64"},
                "data": {"name": "text:text.txt"},
                "train": {"batch_per_device": 4, "steps": 8, "epochs": 3, "optimizer": "adamw", "lr": 0.003},
            },
        ),
        "few": (
            2,
            {
                "data": {"samples": 20},
                "train": {"batch_per_device": 16, "epochs": 12, "lr": 0.1, "precision": "bf16"},
            },
        ),
    }
    found, before = {}, environment()

    def run(name: str) -> None:
        workers, tables = kinds[name]
        found[name] = launch(home, workers, home, **tables)

    threads = [threading.Thread(target=run, args=(name,)) for name in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert environment() == before
    return found


def test_two_launches_do_not_disturb_each_other(both):
    assert set(both) == {"text", "few"}
    assert both["text"].folder.path != both["few"].folder.path
    assert [run.run.devices for run in (both["text"], both["few"])] == [1, 2]
    for name, run in both.items():
        assert (run.folder.path / "run.json").exists(), name


def test_a_text_trains_and_is_counted_in_tokens(both):
    run = both["text"].run
    assert (run.plan.strategy, run.unit) == ("single", "sequences")
    assert run.tokens_per_second == pytest.approx(64 * run.samples_per_second)
    assert run.losses[-1][1] < run.losses[0][1] < 7  # ln 256 = 5.5
    assert run.breakdown.communication == 0
    assert 0 <= run.epochs[-1].top1 <= 1


def test_steps_stop_a_run_early(both):
    # 3480 bytes are 54 windows, 49 of them for training: 13 steps an epoch.
    run = both["text"].run
    assert (run.steps, run.epoch_steps, len(run.epochs)) == (8, 13, 1)
    assert run.epoch_seconds == pytest.approx(13 * run.step_seconds)


def test_less_than_a_batch_is_a_batch_of_its_own(both):
    few = both["few"]
    assert [[record.samples for record in few.steps(rank)] for rank in range(2)] == [[10] * 12, [10] * 12]
    assert (few.run.steps, few.run.global_batch) == (12, 20)


def test_half_precision_learns_and_keeps_whole_weights(both):
    few = both["few"]
    assert few.run.losses[-1][1] < few.run.losses[0][1]
    assert {str(value.dtype) for name, value in few.weights().items() if "num_batches" not in name} == {"torch.float32"}
