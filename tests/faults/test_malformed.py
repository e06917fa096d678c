"""Malformed job and cluster files, key by key: file and key are named, before anything slow is imported."""

import json
import subprocess
import sys

import pytest
from job_tables import CLUSTER, CLUSTER_KEYS, JOB, JOB_KEYS, Wrong, misspelled, toml, wrong_values

IN_JOB = [*wrong_values(JOB_KEYS), *misspelled(JOB_KEYS)]
IN_CLUSTER = [*wrong_values(CLUSTER_KEYS), *misspelled(CLUSTER_KEYS)]


def test_there_are_many():
    assert len(IN_JOB) + len(IN_CLUSTER) >= 220


@pytest.mark.parametrize("wrong", IN_JOB, ids=str)
def test_job_file(desk, refused, wrong):
    (desk / "job.toml").write_text(toml(wrong.within(JOB)))
    sentence = refused("predict", "job.toml")
    assert sentence.startswith(f"job.toml: {wrong.key}") and wrong.says in sentence


@pytest.mark.parametrize("wrong", IN_CLUSTER, ids=str)
def test_cluster_file(desk, refused, wrong):
    (desk / "lab.toml").write_text(toml(wrong.within(CLUSTER)))
    sentence = refused("cluster", "show", "lab.toml")
    assert sentence.startswith(f"lab.toml: {wrong.key}") and wrong.says in sentence
    again = refused("predict", "--set", "model.name=resnet50", "--set", "cluster.file=lab.toml", "--json")
    assert again == sentence


@pytest.mark.parametrize("wrong", IN_CLUSTER[::5], ids=str)
def test_cluster_inline(desk, refused, wrong):
    (desk / "job.toml").write_text(toml(JOB | {"cluster": wrong.within(CLUSTER)}))
    sentence = refused("recommend", "job.toml")
    assert sentence.startswith(f"job.toml: cluster.{wrong.key}") and wrong.says in sentence


@pytest.mark.parametrize("wrong", IN_JOB[::7], ids=str)
def test_override(desk, refused, wrong):
    (desk / "job.toml").write_text(toml(JOB))
    sentence = refused("predict", "job.toml", "--set", f"{wrong.key}={json.dumps(wrong.value)}")
    assert sentence.startswith(f"--set: {wrong.key}") and wrong.says in sentence


CONTRADICTIONS = [
    # what is set over the job, the key to name, what to say
    ({"train.optimizer": "adam", "train.momentum": 0.9}, "train.momentum", "adam has none"),
    ({"train.nesterov": True}, "train.nesterov", "momentum is 0"),
    ({"train.lr": 0.1, "train.lr_min": 0.2}, "train.lr_min", "above lr"),
    ({"train.scaling": "linear"}, "train.lr_reference_batch", "is missing"),
    ({"train.warmup": "gradual", "train.schedule": "one-cycle"}, "train.warmup", "warms up by itself"),
    ({"train.warmup": "gradual", "train.epochs": 2}, "train.warmup_epochs", "longer than epochs"),
    ({"train.schedule": "step"}, "train.milestones", "is missing"),
    ({"train.schedule": "step", "train.milestones": [30, 10]}, "train.milestones", "must increase"),
    ({"train.global_batch": 9, "train.max_global_batch": 8}, "train.global_batch", "above max_global_batch"),
    ({"train.global_batch": 100}, "train.global_batch", "do not divide"),
    ({"train.global_batch": 64, "plan.accumulate": 3}, "train.global_batch", "96 equal parts"),
    ({"train.precision": "fp8"}, "train.precision", "'fp32', 'bf16', 'fp16' or 'fp64'"),
    ({"train.optimizer": "adagrad"}, "train.optimizer", "'sgd', 'adam', 'adamw', 'lars' or 'lamb'"),
    ({"train.optimizer": "lamb", "train.momentum": 0.9}, "train.momentum", "lamb has none"),
    ({"train.optimizer": "lars", "train.momentum": 0.9, "train.nesterov": True}, "train.nesterov", "lars has none"),
    ({"train.label_smoothing": 1.0}, "train.label_smoothing", "must be below 1"),
    ({"train.checkpoint_every": "often"}, "train.checkpoint_every", "such as '500 steps' or '1 epoch'"),
    ({"train.checkpoint_every": "0 steps"}, "train.checkpoint_every", "such as '500 steps'"),
    ({"train.checkpoint_every": "5 minutes"}, "train.checkpoint_every", "number of steps or epochs"),
    ({"train.keep": 0}, "train.keep", "must be at least 1"),
    ({"train.clip_norm": 0.0}, "train.clip_norm", "must be above 0"),
    ({"train.trust": -1.0}, "train.trust", "must be above 0"),
    ({"train.scaling": "cubic"}, "train.scaling", "'none', 'linear' or 'sqrt'"),
    ({"train.schedule": "cos"}, "train.schedule", "cosine"),
    ({"train.milestones": [0]}, "train.milestones", "must be at least 1"),
    ({"train.momentum": 1.0}, "train.momentum", "must be below 1"),
    ({"train.gamma": 2.0}, "train.gamma", "must be at most 1"),
    ({"train.epochs": 1 << 41}, "train.epochs", "must be at most"),
    ({"data.validation": 1.0}, "data.validation", "must be below 1"),
    ({"data.name": "imagent"}, "data.name", "there is no data set 'imagent'"),
    ({"data.name": "minst"}, "data.name", "did you mean 'mnist'?"),
    ({"data.name": "folder:"}, "data.name", "after the colon"),
    ({"data.name": "text:novel.txt"}, "data.name", "choose gpt-nano"),
    ({"model.name": "resnet5"}, "model.name", "did you mean 'resnet50'?"),
    ({"model.name": "resnet50.py"}, "model.name", "resnet50.py:build"),
    ({"model.variant": "cifar"}, "model.variant", "did you mean 'cifar10'?"),
    ({"model.name": "gpt2", "model.variant": "imagenet"}, "model.variant", "has none"),
    ({"model.name": "gpt2", "model.classes": 10}, "model.classes", "has none"),
    ({"model.name": "gpt2", "model.input": "4096"}, "model.input", "at most 1024"),
    ({"model.name": "gpt2", "model.input": "3x32x32"}, "model.input", "must be a length"),
    ({"model.input": "3x224"}, "model.input", "channels x height x width"),
    ({"model.input": "3,224,224"}, "model.input", "such as '3x224x224'"),
    ({"model.input": "0x224x224"}, "model.input", "no sample has such a size"),
    ({"model.input": "tokens:512"}, "model.input", "length x vocabulary"),
    ({"model.name": "vgg16", "model.input": "3x16x16"}, "model.input", "at least 32 pixels"),
    ({"cluster.preset": "taito-v100"}, "cluster.preset", "did you mean 'taito-p100'?"),
    ({"cluster.file": "nowhere.toml"}, "cluster.file", "there is no such file"),
    ({"cluster.device": "p1000"}, "cluster.device", "did you mean 'p100'?"),
    ({"cluster.link.network.kind": "ethernet-11g"}, "cluster.link.network.kind", "did you mean 'ethernet-1"),
    ({"plan.strategy": "alreduce"}, "plan.strategy", "did you mean 'allreduce'?"),
    ({"plan.devices": 33}, "plan.devices", "taito-p100 has 32"),
    ({"plan.device": 4}, "plan.device", "did you mean 'devices'?"),
    ({"plan.compression": "fp8"}, "plan.compression", "allreduce"),
    ({"plan.algorithm": "rings"}, "plan.algorithm", "did you mean 'ring'?"),
    ({"plan.bucket_mb": 1e9}, "plan.bucket_mb", "at most"),
    ({"plan.strategy": "auto", "plan.bucket_mb": 5}, "plan.bucket_mb", "name the strategy"),
    ({"plan.strategy": "single", "plan.bucket_mb": 5}, "plan.bucket_mb", "is not a knob of single"),
    ({"plan.strategy": "single", "plan.devices": 4}, "plan", "single uses 1 device, not 4"),
    ({"plan.strategy": "allreduce", "plan.devices": 1}, "plan", "allreduce needs at least 2"),
    ({"profile.file": "nowhere.json"}, "nowhere.json", "there is no such file"),
    ({"profile.throughput": 100.0, "profile.file": "p.json"}, "profile.throughput", "file"),
    ({"extra.key": 1}, "extra", "is not a known key"),
    ({"training.epochs": 1}, "training", "did you mean 'train'?"),
]


@pytest.mark.parametrize(("keys", "key", "says"), CONTRADICTIONS, ids=lambda value: str(value)[:60])
def test_contradiction(desk, refused, keys, key, says):
    tables = JOB
    for name, value in keys.items():
        tables = Wrong(name, value).within(tables)
    if "cluster.file" in keys:
        del tables["cluster"]["preset"]
    (desk / "job.toml").write_text(toml(tables))
    sentence = refused("predict", "job.toml")
    assert key in sentence and says in sentence
    assert sentence.startswith("job.toml: ") or key == "nowhere.json"


IN_A_CLUSTER_FILE = [
    ({"link": {"network": {"kind": "pcie3"}}}, "link.device", "is missing"),
    ({"link": {"device": {"kind": "pcie3"}}}, "link.network", "is missing"),
    ({"link": {"device": {"latency": "5 us"}, "network": {"kind": "pcie3"}}}, "link.device.bandwidth", "is missing"),
    ({"link": {"device": {"bandwidth": "5 Gb/s"}, "network": {"kind": "pcie3"}}}, "link.device.latency", "is missing"),
    ({"device": "p10"}, "device", "did you mean 'p100'?"),
    ({"name": ""}, "name", "must be a text that is not empty"),
    ({"price": {"helper_hour": "1 USD"}}, "price.device_hour", "is missing"),
    ({"price": {"device_hour": "1 USD", "helper_hour": "1 EUR"}}, "price.helper_hour", "use one currency"),
    ({"switch": [{"devices": [0, 4], "uplink": "pcie3"}]}, "switch.0.devices", "0 to 3"),
    ({"switch": [{"devices": [0], "uplink": "pcie3"}] * 2}, "switch.1.devices", "again"),
    ({"switch": [{"devices": [], "uplink": "pcie3"}]}, "switch.0.devices", "is empty"),
    ({"switch": [{"devices": [0], "uplink": "pcie9"}]}, "switch.0.uplink", "did you mean"),
    ({"switch": [{"devices": [0]}]}, "switch.0.uplink", "is missing"),
    ({"switch": [{"device": [0], "uplink": "pcie3"}]}, "switch.0.device", "did you mean 'devices'?"),
    ({"switch": {"devices": [0], "uplink": "pcie3"}}, "switch", "[[switch]]"),
    ({"host": "big"}, "host", "must be a table"),
    ({"link": {"device": "pcie3"}}, "link.device", "must be a table"),
    ({"hosts": 1 << 50}, "hosts", "must be at most"),
]


@pytest.mark.parametrize(("keys", "key", "says"), IN_A_CLUSTER_FILE, ids=lambda value: str(value)[:60])
def test_cluster_file_that_makes_no_sense(desk, refused, keys, key, says):
    (desk / "lab.toml").write_text(toml(CLUSTER | keys))
    sentence = refused("cluster", "show", "lab.toml", "--json")
    assert sentence.startswith(f"lab.toml: {key}: ") and says in sentence


NO_TOML = {
    "a syntax error": b"[model]\nname = resnet50\n",
    "an open table": b"[model\n",
    "a key twice": b"[model]\nname = 'a'\nname = 'b'\n",
    "a table twice": b"[model]\nname = 'a'\n[model]\n",
    "binary junk": bytes(range(256)) * 4,
    "NULs": b"\0" * 64,
    "JSON": b'{"model": {"name": "resnet50"}}',
    "YAML": b"model:\n  name: resnet50\n",
    "a text that never ends": b'[model]\nname = "resnet50\n',
    "UTF-16": "[model]\nname = 'resnet50'\n".encode("utf-16"),
}


@pytest.mark.parametrize("content", NO_TOML.values(), ids=NO_TOML.keys())
@pytest.mark.parametrize("command", ["profile", "predict", "recommend", "launch"])
def test_no_toml(desk, refused, content, command):
    (desk / "job.toml").write_bytes(content)
    sentence = refused(command, "job.toml")
    assert sentence.startswith("job.toml: ") and ("TOML" in sentence or "UTF-8" in sentence)


@pytest.mark.parametrize("command", ["profile", "predict", "recommend", "launch"])
def test_no_job(desk, refused, command):
    assert refused(command).startswith("--set: model.name: is missing; give a job file")
    assert refused(command, "job.toml", "--json") == "job.toml: there is no such file"
    (desk / "empty.toml").write_text("# nothing\n")
    assert refused(command, "empty.toml").startswith("empty.toml: model: is missing")
    (desk / "folder.toml").mkdir()
    assert refused(command, "folder.toml") == "folder.toml: is a folder, not a file"
    (desk / "flat.toml").write_text("model = 'resnet50'\n")
    assert refused(command, "flat.toml").startswith("flat.toml: model: is 'resnet50', must be a table")
    assert refused(command, "-s", "model.name=3").startswith("--set: model.name: is 3")


@pytest.mark.parametrize("text", ["epochs=3", "train.epochs", "=3", "train.=3", ".epochs=3", "train..epochs=3", ""])
def test_no_override(desk, refused, text):
    (desk / "job.toml").write_text(toml(JOB))
    assert refused("predict", "job.toml", "--set", text).startswith(f"--set: {text!r} is not of the form section.key")


def test_a_text_where_a_table_is_needed(desk, refused):
    sentence = refused("predict", "-s", "model.name=resnet50", "-s", "model.name.first=1")
    assert sentence.startswith("--set: model.name.first: ")


def test_debug_shows_the_traceback(desk):
    from paceline.cli.main import run
    from paceline.errors import FileError

    with pytest.raises(FileError):
        run(["predict", "job.toml", "--debug"])


def test_nothing_slow_is_imported(desk):
    """All of the above fail before torch or numba is imported; one process goes through a tenth of them."""
    for number, wrong in enumerate(IN_JOB[::10]):
        (desk / f"{number}.toml").write_text(toml(wrong.within(JOB)))
    for number, wrong in enumerate(IN_CLUSTER[::10]):
        (desk / f"cluster-{number}.toml").write_text(toml(wrong.within(CLUSTER)))
    program = (
        "import glob, sys; from paceline.cli.main import run\n"
        "for file in glob.glob('*.toml'):\n"
        "    words = ['cluster', 'show', file] if file.startswith('cluster') else ['predict', file]\n"
        "    assert run(words) == 2, file\n"
        "assert not {'torch', 'numba'} & set(sys.modules), 'imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-500:]
