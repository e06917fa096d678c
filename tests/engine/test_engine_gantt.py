"""Charts of tiny steps: golden files, in the pictures of the papers, and what holds of any chart."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import MIB, cluster, link, plan, profile, timing, workload
from paceline.engine.gantt import gantt
from paceline.engine.play import play
from paceline.engine.program import Builder, Work
from paceline.predictor.predict import Length, predict_played

GOLDEN = Path(__file__).parent / "gantt"
FOUR = profile(workload([(MIB,)] * 4), timing([0.010] * 4, [0.020] * 4, optimizer=0.004))
EACH = "0-1,1-2,2-3,3-4"


def chart(strategy, width=96, network=8.0, devices=4, **knobs):
    chosen = plan(strategy, devices, 8, **knobs)
    found = predict_played(FOUR, cluster(4, network=link(network)), chosen, Length(1000))
    return gantt(found.played, width, found.window)


CHARTS = {
    "gpipe": lambda: chart("gpipe", micro_batches=4),
    "gpipe-narrow": lambda: chart("gpipe", 60, micro_batches=4),
    "1f1b": lambda: chart("1f1b", micro_batches=4),
    "interleaved": lambda: chart("1f1b", devices=2, micro_batches=4, virtual=2),
    "pipedream": lambda: chart("pipedream", partition=EACH),
    "allreduce": lambda: chart("allreduce", network=1.0, bucket_mb=1.0),
    "dasgd": lambda: chart("dasgd", network=0.3),
    "slow-links": lambda: chart("gpipe", network=0.005, micro_batches=4),
}


@pytest.mark.parametrize("name", CHARTS)
def test_the_chart_of_a_tiny_step(name):
    found = CHARTS[name]()
    assert found + "\n" == (GOLDEN / f"{name}.txt").read_text(encoding="ascii")


def test_gpipe_is_the_triangle_of_its_paper():
    rows = chart("gpipe", micro_batches=4).splitlines()[1:5]
    starts = [row.index("F0") for row in rows]
    assert {later - sooner for sooner, later in pairwise(starts)} <= {4, 5}  # 10 ms each
    ends = [row.index("B0") for row in rows]
    assert all(sooner > later for sooner, later in pairwise(ends))


def test_a_steady_pipedream_has_no_idle_column():
    rows = chart("pipedream", partition=EACH).splitlines()[1:5]
    assert not any("." in row for row in rows)


def test_links_are_left_out_where_the_chart_needs_the_room():
    shape = {"stages": 2, "replicas": 2, "micro_batches": 4}
    wide, narrow = (chart("gpipe", width, network=0.5, **shape) for width in (100, 60))
    assert "host 0's NIC, out" in wide and "NIC" not in narrow


def test_many_stages_are_cut_in_the_middle():
    build = Builder()
    for number in range(100):
        build.task("forward 0", Work.COMPUTE, build.stream("compute", build.role(f"stage {number}")), 1.0)
    rows = gantt(play(build.build()), 80).splitlines()
    assert rows[16].startswith("stage 15") and rows[17].strip() == "(68 more)" and rows[18].startswith("stage 84")


def test_nothing_to_draw():
    build = Builder()
    build.task("forward", Work.COMPUTE, build.stream("compute", build.role("device")), 0.0)
    assert gantt(play(build.build()), 80) == "nothing takes time"


SETTINGS = [
    ("single", 1, {}),
    ("allreduce", 4, {}),
    ("fsdp", 4, {}),
    ("ps", 4, {}),
    ("localsgd", 4, {}),
    ("dasgd", 4, {}),
    ("model", 4, {}),
    ("gpipe", 4, {"micro_batches": 8}),
    ("1f1b", 2, {"micro_batches": 8, "virtual": 2}),
    ("pipedream", 4, {}),
]


@given(st.sampled_from(SETTINGS), st.integers(40, 100), st.floats(1, 100))
def test_any_chart_fits_and_is_plain(setting, width, network):
    strategy, devices, knobs = setting
    found = chart(strategy, width, network, devices, **knobs)
    lines = found.splitlines()
    assert max(map(len, lines)) <= width and found.isascii()
    assert all(line == line.rstrip() for line in lines[1:])
    assert any("F" in line and "B" in line for line in lines[1:-1])
    words = " ".join(found.split())
    assert all(part in words for part in ("F forward", "B backward", "a column is"))
