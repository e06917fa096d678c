"""The timeline of a tiny step, as a Chrome trace: a golden file, and what the format asks of any trace."""

import json
from pathlib import Path

from handmade import cluster, plan, profile
from paceline.engine.play import play
from paceline.engine.program import Builder, Work
from paceline.engine.timeline import chrome_trace
from paceline.predictor.predict import Length, predict_played

GOLDEN = Path(__file__).parent / "timeline.json"


def tiny():
    build = Builder()
    device, server = build.role("device", 4), build.role("server")
    compute, summing = build.stream("compute", device), build.stream("sums", server)
    up = build.wire("up", 8e9)
    data = build.task("data", Work.DATA, compute, 0.001)
    loop = build.task("loop", Work.OVERHEAD, compute, 0.0, [data])  # takes no time: not drawn
    backward = build.task("backward", Work.COMPUTE, compute, 0.002, [loop])
    push = build.transfer("push", 1_000_000, [up], 0.0005, [backward], device=device)
    build.task("sum", Work.COMPUTE, summing, 0.00025, [push])
    return play(build.build())


def test_the_trace_of_a_tiny_step():
    found = json.loads(json.dumps(chrome_trace(tiny(), "a tiny step")))
    for event in found["traceEvents"]:
        for key in ("ts", "dur"):
            if key in event:
                event[key] = round(event[key], 6)
    assert found == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_transfers_that_overlap_stand_on_tracks_of_their_own():
    build = Builder()
    device = build.role("device")
    for number in range(3):
        build.transfer(f"push {number}", 1000 * (number + 1), [build.wire(f"wire {number}", 8e3)], 0.0, device=device)
    build.transfer("after", 1000, [0], 0.0, [0], device=device)
    tracks = {e["name"]: e["tid"] for e in chrome_trace(play(build.build()), "")["traceEvents"] if e["ph"] == "X"}
    assert tracks == {"push 0": 0, "push 1": 1, "push 2": 2, "after": 0}


def test_any_trace_is_one_that_viewers_open():
    played = predict_played(profile(), cluster(), plan(), Length(1000)).played
    found = chrome_trace(played, "toy")
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    tracks = {event["tid"]: event["args"]["name"] for event in found["traceEvents"] if event["name"] == "thread_name"}
    assert set(tracks.values()) >= {"device x 4: compute", "device x 4: all-reduce"}
    drawn = [event for event in found["traceEvents"] if event["ph"] != "M"]
    assert drawn
    last = dict.fromkeys(tracks, 0.0)
    for event in sorted(drawn, key=lambda event: event["ts"]):
        assert event["ph"] == "X"
        assert event["dur"] > 0
        assert event["ts"] >= last[event["tid"]] - 1e-6  # nothing overlaps on a track
        last[event["tid"]] = event["ts"] + event["dur"]
    assert max(last.values()) <= played.makespan * 1e6 * (1 + 1e-12)
