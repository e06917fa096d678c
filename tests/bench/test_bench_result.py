import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.artefact import from_dict, to_dict
from paceline.bench.machine import this_machine
from paceline.bench.result import BenchResult, cell, quantile, summarise
from paceline.bench.suite import SUITES, find_suite
from paceline.errors import UnknownNameError

ERRORS = st.lists(st.floats(-0.9, 5), min_size=1, max_size=30)


def cells(errors):
    return [cell("a model", "single", 1 + error, 1.0, "s") for error in errors]


def test_the_figures_by_hand():
    found = summarise(cells([0.1, -0.2, 0.0, 0.3, -0.4]))
    assert found.cells == 5
    assert (found.mean_error, found.median_error, found.worst_error) == pytest.approx((0.2, 0.2, 0.4))
    assert found.bias == pytest.approx(-0.04)
    assert found.p95_error == pytest.approx(0.38)  # at place 3.8 of 0, 0.1, 0.2, 0.3, 0.4
    assert (found.best_named_first, found.mean_regret) == (None, None)


def test_one_cell_is_all_figures_at_once():
    found = summarise(cells([-0.25]))
    assert {found.mean_error, found.median_error, found.p95_error, found.worst_error} == {0.25}
    assert found.bias == -0.25


def test_quantiles_by_hand():
    assert [quantile([1.0, 2.0, 4.0], share) for share in (0, 0.25, 0.5, 0.75, 1)] == [1, 1.5, 2, 3, 4]
    assert quantile([7.0], 0.95) == 7


@given(ERRORS)
def test_figures_stand_in_order(errors):
    found = summarise(cells(errors))
    slack = 1e-9
    assert abs(found.bias) <= found.mean_error + slack
    assert found.median_error <= found.p95_error + slack and found.p95_error <= found.worst_error + slack
    assert found.worst_error == pytest.approx(max(abs(error) for error in errors), abs=1e-9)


@given(ERRORS, st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise_with_their_share(values, one, other):
    low, high = sorted((one, other))
    ordered = sorted(values)
    slack = 1e-9
    assert ordered[0] - slack <= quantile(ordered, low) <= quantile(ordered, high) + slack <= ordered[-1] + 2 * slack


def test_a_result_keeps_its_values_in_a_file_and_names_its_machine():
    found = cells([0.1, 0.2])
    result = BenchResult("a suite", tuple(found), summarise(found), this_machine(), 1.5)
    assert from_dict(BenchResult, to_dict(result)) == result
    machine = result.machine
    assert machine.cores >= 1 and machine.processor and machine.date.endswith("+00:00")
    assert machine.command.split()[0] == "paceline"


def test_suites_are_found_by_name():
    assert all(find_suite(name).run for name in SUITES)
    with pytest.raises(UnknownNameError, match="did you mean 'sequential'"):
        find_suite("sequentail")
