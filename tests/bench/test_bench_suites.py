"""The suites themselves."""

import pytest

from paceline.bench.device_models import published
from paceline.bench.suite import find_suite
from paceline.store.home import run_ids


def test_device_models_are_near_what_was_published():
    heard = []
    result = find_suite("device-models").run(1.0, lambda what, share: heard.append(share))
    assert result.summary.cells == len(result.cells) == len(list(published())) > 20
    assert result.summary.median_error < 0.10
    assert abs(result.summary.bias) < 0.10
    assert heard == sorted(heard)
    assert all(cell.note and cell.unit == "images/s" for cell in result.cells)
    assert len({(cell.name, cell.plan, cell.measured) for cell in result.cells}) == len(result.cells)


@pytest.mark.slow
def test_sequential_runs_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_RUNS", str(tmp_path))
    result = find_suite("sequential").run(0.03, lambda what, share: None)
    assert len(result.cells) == 6
    assert all(cell.measured > 0 and cell.unit == "s an epoch" for cell in result.cells)
    assert result.summary.median_error < 0.5  # epochs of two seconds beside who knows what
    assert len(run_ids(tmp_path)) == 6
