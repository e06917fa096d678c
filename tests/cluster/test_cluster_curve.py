"""Curves of measured collectives: between their points, beyond them, and in files."""

import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster.curve import Curve, curve_for
from paceline.cluster.file import cluster_from
from paceline.cluster.presets import list_presets, load_preset
from paceline.cluster.section import build
from paceline.cluster.toml import as_toml
from paceline.engine.collective import all_reduce
from paceline.engine.group import group_of
from paceline.errors import FileError

CURVE = Curve("all-reduce", 4, (1e3, 1e4, 1e5), (2e-3, 3e-3, 8e-3))


def test_points_and_lines_between_them():
    assert [CURVE.at(size) for size in CURVE.bytes] == list(CURVE.seconds)
    assert CURVE.at(5500) == pytest.approx(2.5e-3)
    assert CURVE.at(1e6) == pytest.approx(8e-3 + 5e-3 * 10)  # as the last line goes on
    assert CURVE.at(0) == pytest.approx(2e-3 - 1e-3 / 9)


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=9), st.floats(0, 1e9))
def test_no_time_is_ever_zero_or_falls_beyond_the_ends(seconds, size):
    curve = Curve("all-reduce", 2, tuple(10.0**n for n in range(len(seconds))), tuple(seconds))
    assert curve.at(size) > 0
    assert curve.at(2e9) >= curve.at(1.5e9)


@pytest.mark.parametrize(
    ("sizes", "seconds"), [((1.0,), (1.0,)), ((1.0, 2.0), (1.0,)), ((2.0, 1.0), (1.0, 2.0)), ((1.0, 1.0), (1.0, 2.0))]
)
def test_what_is_no_curve(sizes, seconds):
    with pytest.raises(ValueError, match="sizes"):
        Curve("all-reduce", 2, sizes, seconds)


def test_a_curve_is_for_its_own_number_of_ranks():
    assert curve_for((CURVE,), "all-reduce", 4) is CURVE
    assert curve_for((CURVE,), "all-reduce", 8) is None
    assert curve_for((CURVE,), "broadcast", 4) is None


def test_predictions_go_through_a_measured_curve_unless_an_algorithm_is_named():
    cluster = replace(load_preset("taito-p100"), hosts=1, curves=(CURVE,))
    group = group_of(cluster)
    found = all_reduce(group, 5500)
    assert (found.algorithm, found.seconds) == ("measured", pytest.approx(2.5e-3))
    assert found.fixed == pytest.approx(CURVE.at(0))
    assert all_reduce(group, 5500, "ring") == all_reduce(group_of(replace(cluster, curves=())), 5500, "ring")


@pytest.mark.parametrize("name", list_presets())
def test_a_cluster_as_text_is_the_cluster(name):
    cluster = replace(load_preset(name), curves=(CURVE,))
    text = as_toml(cluster, "two", "lines")
    assert text.startswith("# two\n# lines\nname = ")
    assert build(tomllib.loads(text), "x.toml") == cluster


def test_curves_are_forgotten_with_the_links_that_they_were_measured_on(tmp_path):
    (tmp_path / "lab.toml").write_text(as_toml(replace(load_preset("taito-p100"), curves=(CURVE,))))
    where = tmp_path / "job.toml"
    assert cluster_from({"file": "lab.toml", "hosts": 2}, where).curves == (CURVE,)
    assert cluster_from({"file": "lab.toml", "link": {"network": {"bandwidth": "1 Gb/s"}}}, where).curves == ()


def test_a_wrong_curve_names_its_key():
    table = {"collective": "all-reduce", "ranks": 2, "bytes": [2.0, 1.0], "seconds": [1.0, 1.0]}
    with pytest.raises(FileError, match=r"lab.toml: curve\.0\.bytes: the sizes of a curve must increase"):
        build({"device": "t4", "curve": [table]}, "lab.toml")
