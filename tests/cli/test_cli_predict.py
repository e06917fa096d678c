"""paceline predict: references beside the prediction, the chart, the trace of a pipeline, the whole reason."""

import json
import re

import pytest

from terminal import on_a_terminal

JOB = ["-s", "model.name=cnn", "-s", "cluster.preset=titan-rtx", "-s", "data.samples=4096"]
JOB += ["-s", "train.batch_per_device=32", "-s", "cluster.hosts=1"]
PIPELINE = [*JOB, "-s", "plan.strategy=gpipe", "-s", "plan.micro_batches=4"]


@pytest.fixture
def job(said, desk):
    """A saved profile spares every command torch."""
    said("profile", *JOB, "-o", "p.json")
    return lambda strategy, *more: [*JOB, "-s", "profile.file=p.json", "-s", f"plan.strategy={strategy}", *more]


def test_references_as_data(answer, job):
    plain = answer("predict", *job("allreduce"))
    found = answer("predict", *job("allreduce"), "--reference")
    references = found.pop("references")
    assert found == plain  # a prediction with one key more
    assert [each["name"] for each in references] == ["eq51-weak", "eq51-strong", "paleo-tree", "paleo-butterfly"]
    for each in references:
        assert each.keys() == {"name", "source", "step_seconds", "note"}
        assert each["step_seconds"] > 0 and each["source"] and each["note"]


def test_references_in_words(said, answer, job):
    found = answer("predict", *job("gpipe"), "--reference")
    text = said("predict", *job("gpipe"), "--reference")
    rows = {line.split()[0]: line for line in text.splitlines() if line.startswith(("eq61-62 ", "bubble "))}
    for each in found["references"]:
        against = f"{each['step_seconds'] / found['step_seconds'] - 1:+.1%}"
        assert against in rows[each["name"]] and each["source"] in rows[each["name"]]
    assert max(map(len, text.splitlines())) <= 100
    assert "reference " not in said("predict", *job("gpipe"))


def test_a_strategy_without_references(said, answer, job):
    assert answer("predict", *job("fsdp"), "--reference")["references"] == []
    assert "No published closed form speaks of fsdp." in said("predict", *job("fsdp"), "--reference")


def test_a_chart(said, answer, job):
    words = job("gpipe", "-s", "plan.micro_batches=4", "-s", "plan.stages=4")
    text = said("predict", *words, "--gantt")
    (row,) = (line for line in text.splitlines() if line.startswith("stage 0 ") and "sends" not in line)
    assert re.search(r"F0-*F1-*F2-*F3", row) and row.index("F3") < row.index("B0")
    assert max(map(len, text.splitlines())) <= 100 and "\x1b" not in text
    assert answer("predict", *words, "--gantt")["gantt"] in text


def test_a_chart_on_a_narrow_terminal(job):
    lines = on_a_terminal(["predict", *job("gpipe", "-s", "plan.micro_batches=4"), "--gantt", "-q"], 60).splitlines()
    rows = [line for line in lines if line.startswith("stage ") and "sends" not in line]
    assert len(rows) == 4 and all("F" in row and "B" in row for row in rows)
    assert max(map(len, lines)) <= 60


def test_the_steady_window_of_an_asynchronous_pipeline(said, job):
    text = said("predict", *job("pipedream", "-s", "plan.partition=0-3,3-6,6-9,9-12"), "--gantt")
    (row,) = (line for line in text.splitlines() if line.startswith("stage 3 ") and "sends" not in line)
    assert "F0" not in row and "B0" not in row  # the pipeline has long been full


def test_the_trace_of_a_pipeline(said, job, desk):
    said("predict", *job("gpipe"), "--trace", "t.json")
    events = json.loads((desk / "t.json").read_text())["traceEvents"]
    processes = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert processes == {"stage 0", "stage 1", "stage 2", "stage 3", "links"}
    assert {"s", "t", "f"} <= {event["ph"] for event in events}


def test_what_would_lift_the_bottleneck(answer, job):
    slow = ["-s", "plan.strategy=allreduce", "-s", "cluster.hosts=4", "-s", "profile.file=p.json"]
    found = answer("predict", *JOB, *slow)["bottleneck"]
    assert re.fullmatch(r"the network between the hosts: \d+% of the step is exposed .*all-reduce \(.+\); .+", found)
    best = answer("recommend", *job("auto"), "--keep-batch")["plans"]
    again = answer("predict", *JOB, "-s", "profile.file=p.json", "-s", f"plan.strategy={best[0]['plan']['strategy']}",
                   "-s", f"plan.devices={best[0]['devices']}", *_knobs(best[0]["plan"]["knobs"]))  # fmt: skip
    assert best[0]["bottleneck"] == again["bottleneck"]
    # The others are many: only what takes their step is said.
    assert all("would" not in plan["bottleneck"] for plan in best[1:] if "the input" not in plan["bottleneck"])


def _knobs(knobs):
    return [word for key, value in knobs.items() for word in ("-s", f"plan.{key}={json.dumps(value)}")]
