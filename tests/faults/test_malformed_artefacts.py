"""Profiles, plans and flags that do not fit: the file or the flag is named, and the key."""

import json

import pytest

from paceline.artefact import save, to_dict
from paceline.cli.main import run
from paceline.strategy.contract import Plan

JOB = '[model]\nname = "cnn"\n[data]\nsamples = 512\n[cluster]\npreset = "taito-p100"\n[plan]\nstrategy = "single"\n'
PLAN = to_dict(Plan("allreduce", 2, 32, {}))


@pytest.fixture(scope="session")
def profile(tmp_path_factory):
    """A profile of cnn, as `paceline profile` saves it."""
    path = tmp_path_factory.mktemp("profile") / "p.json"
    words = ["profile", "-s", "model.name=cnn", "-s", "cluster.preset=taito-p100", "-o", str(path), "--json"]
    assert run(words) == 0
    return json.loads(path.read_text())


def changed(data, path, value):
    """Return a JSON object with one value replaced, or removed where the value is ``...``."""
    copy = json.loads(json.dumps(data))
    *way, last = path.split(".")
    inner = copy
    for part in way:
        inner = inner[int(part) if part.isdigit() else part]
    last = int(last) if last.isdigit() else last
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return copy


# key of a profile, what it is set to, what the sentence must say
PROFILES = [
    ("kind", "plan", "a 'profile' is needed here"),
    ("kind", ..., "a 'profile' is needed here"),
    ("version", 99, "update Paceline"),
    ("version", 0, "must be a whole number from 1"),
    ("version", "1", "must be a whole number from 1"),
    ("workload", ..., "is missing"),
    ("workload", [], "must be a table"),
    ("workload.name", "resnet50", "but the job's model is 'cnn/mnist'"),
    ("workload.precision", "bf16", "but the job trains in 'fp32'"),
    ("workload.layers", {}, "must be a list"),
    ("workload.layers.0.flops", "many", "must be a whole number"),
    ("workload.layers.0.name", ..., "is missing"),
    ("timings", ..., "is missing"),
    ("timings", [], "is empty"),
    ("timings.0.batch", "x", "must be a whole number"),
    ("timings.0.forward_seconds", [0.1], "layers"),
    ("timings.0.optimizer_seconds", float("nan"), "finite"),
    ("timings.0.forward_seconds.0", float("nan"), "finite"),
    ("timings.0.overhead_seconds", float("inf"), "finite"),
    ("timings.0.backward_seconds.0", -1.0, "negative"),
    ("timings.0.batch", 0, "at least 1"),
    ("source", "invented", "must be 'measured', "),
    ("colour", "red", "is not a known key"),
    ("timings.0.secnds", 1, "is not a known key"),
]


@pytest.mark.parametrize(("key", "value", "says"), PROFILES, ids=lambda value: str(value)[:40])
def test_profile(desk, refused, profile, key, value, says):
    (desk / "job.toml").write_text(JOB + '[profile]\nfile = "p.json"\n')
    (desk / "p.json").write_text(json.dumps(changed(profile, key, value)))
    sentence = refused("predict", "job.toml")
    assert sentence.startswith(f"p.json: {key}") and says in sentence


NO_JSON = {
    "empty": b"",
    "half": b'{"kind": "profile", "ver',
    "binary": bytes(range(256)),
    "a list": b"[]",
    "null": b"null",
}


@pytest.mark.parametrize("content", NO_JSON.values(), ids=NO_JSON.keys())
def test_files_that_are_no_json(desk, refused, content):
    (desk / "job.toml").write_text(JOB + '[profile]\nfile = "p.json"\n')
    (desk / "p.json").write_bytes(content)
    assert refused("predict", "job.toml").startswith("p.json: ")
    (desk / "here.toml").write_text('[model]\nname = "cnn"\n')
    assert refused("launch", "here.toml", "--plan", "p.json").startswith("p.json: ")
    assert refused("cluster", "show", "p.json").startswith("p.json: ")


def test_files_that_are_not_there(desk, refused):
    (desk / "here.toml").write_text('[model]\nname = "cnn"\n')
    (desk / "d.json").mkdir()
    assert refused("launch", "here.toml", "--plan", "no.json") == "no.json: there is no such file"
    assert refused("launch", "here.toml", "--plan", "d.json").startswith("d.json: ")
    assert refused("cluster", "show", "no.toml") == "no.toml: there is no such file"
    assert refused("cluster", "show", "no.json") == "no.json: there is no such file"
    assert refused("predict", "here.toml", "-s", "profile.file=d.json").startswith("d.json: ")


PLANS = [
    ("kind", "profile", "a 'plan' is needed here"),
    ("version", 2, "update Paceline"),
    ("strategy", "alreduce", "did you mean 'allreduce'?"),
    ("strategy", 3, "must be a text"),
    ("devices", 3, "offers 2"),
    ("devices", 0, ""),
    ("devices", "two", "must be a whole number"),
    ("batch_per_device", 0, "at least 1"),
    ("batch_per_device", -4, "at least 1"),
    ("knobs", [], "must be a table"),
    ("knobs.bucket_mbb", 25.0, "did you mean 'bucket_mb'?"),
    ("knobs.bucket_mb", "large", "must be a number"),
    ("knobs.overlap", 1, "must be true or false"),
    ("knobs.accumulate", 0, "at least 1"),
    ("knobs.compression", "zip", "allreduce"),
    ("colour", "red", "is not a known key"),
    ("batch_per_device", ..., "is missing"),
]


@pytest.mark.parametrize(("key", "value", "says"), PLANS, ids=lambda value: str(value)[:40])
def test_plan(desk, refused, key, value, says):
    (desk / "job.toml").write_text(
        '[model]\nname = "cnn"\n[data]\nsamples = 512\n[cluster]\npreset = "here"\ndevices_per_host = 2\n'
    )
    (desk / "plan.json").write_text(json.dumps(changed(PLAN, key, value)))
    sentence = refused("launch", "job.toml", "--plan", "plan.json")
    assert sentence.startswith(f"plan.json: {key}") and says in sentence


FLAGS = [
    # words, what the sentence must begin with, what it must say
    (["predcit", "job.toml"], "", "did you mean 'predict'?; see `paceline --help`"),
    (["predict", "job.toml", "--tracer", "x"], "", "--tracer"),
    (["predict", "job.toml", "second.toml"], "", "second.toml"),
    (["predict", "job.toml", "--trace"], "", "--trace"),
    (["predict", "job.toml", "--trace", "folder"], "--trace: ", "is a folder"),
    (["predict", "job.toml", "--trace", "job.toml/t.json"], "--trace: ", "cannot be written"),
    (["predict", "job.toml", "-o", "folder"], "--output: ", "is a folder"),
    (["predict", "job.toml", "--set"], "", "--set"),
    (["recommend", "job.toml", "--objective", "speed"], "", "--objective"),
    (["recommend", "job.toml", "--objective", "cost"], "job.toml: cluster.price: ", "device_hour"),
    (["recommend", "job.toml", "--rows", "-1"], "--rows: ", "at least 0"),
    (["recommend", "job.toml", "--rows", "ten"], "", "--rows"),
    (["recommend", "job.toml", "-o", "folder"], "--output: ", "is a folder"),
    (["profile", "job.toml", "--seconds", "0"], "--seconds: ", "above 0"),
    (["profile", "job.toml", "--seconds", "-1"], "--seconds: ", "above 0"),
    (["profile", "job.toml", "--seconds", "nan"], "--seconds: ", "above 0"),
    (["profile", "job.toml", "--seconds", "long"], "", "--seconds"),
    (["profile", "job.toml", "--device", "v1000"], "--device: ", "there is no device 'v1000'"),
    (["profile", "job.toml", "--device", "cuda"], "", "paceline doctor"),
    (["profile", "job.toml", "--batches", "1,x"], "--batches: ", "whole numbers"),
    (["profile", "job.toml", "--batches", "0"], "--batches: ", "whole numbers"),
    (["profile", "job.toml", "--batches", ""], "--batches: ", "whole numbers"),
    (["profile", "job.toml", "--layers", "-1"], "--layers: ", "at least 0"),
    (["profile", "job.toml", "-o", "folder"], "--output: ", "is a folder"),
    (["launch", "job.toml", "--on", "mars"], "", "--on"),
    (["launch", "job.toml"], "job.toml: cluster", "this machine"),
    (["cluster", "show", "lap"], "", "there is no cluster 'lap'"),
    (["cluster", "show", "a/b"], "a/b: ", "there is no such file"),
    (["cluster", "draw"], "", "draw"),
    (["data", "fetch", "imagenet"], "", "there is no data set to fetch 'imagenet'"),
    (["data", "fetch"], "", "name"),
    (["data", "write", "folder", "-s", "model.name=cnn"], "folder: ", "is not a synthetic set"),
    (["data", "write", "new", "-s", "model.name=cnn", "--samples", "0"], "--samples: ", "at least 1"),
    (["data", "write", "new"], "--set: model.name: ", "is missing"),
    (["data", "write", "new", "-s", "model.name=cnn", "--seed", "-1"], "--seed: ", "at least 0"),
    (["data", "write", "job.toml/new", "-s", "model.name=cnn"], "job.toml/new: ", "cannot be"),
    (["data", "write", "new", "-s", "model.name=gpt2", "--samples", "99999999999"], "new: ", "are free there"),
    (["init", "job.toml"], "job.toml: ", ""),
    (["models", "--flop"], "", "--flop"),
    (["doctor", "now"], "", "now"),
    (["--unknown"], "", "--unknown"),
]


@pytest.mark.parametrize(
    ("words", "begins", "says"), FLAGS, ids=lambda value: " ".join(value) if type(value) is list else ""
)
def test_flags(desk, refused, words, begins, says):
    (desk / "job.toml").write_text(JOB)
    (desk / "folder").mkdir()
    sentence = refused(*words)
    assert sentence.startswith(begins) and says in sentence


def test_init_does_not_overwrite(desk, refused, capsys):
    for name in ("job.toml", "lab.toml", "model.py"):
        (desk / name).write_text("mine")
        assert refused("init").startswith(f"{name}: is there already")
        (desk / name).unlink()


def test_saving_over_a_folder_leaves_nothing(desk, tmp_path):
    from paceline.errors import FileError

    (desk / "plan.json").mkdir()
    with pytest.raises(FileError, match=r"plan\.json: cannot be written"):
        save(Plan("single", 1, 32, {}), desk / "plan.json")
    assert [path.name for path in desk.iterdir()] == ["plan.json"]
