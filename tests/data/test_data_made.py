"""Sets that are made: synthetic ones in memory and on disk, and a user's own Dataset."""

import json
import sys

import pytest
import torch

from paceline.data.source import load_data
from paceline.data.spec import DataSpec
from paceline.data.synthetic import write_synthetic
from paceline.errors import DataError, FileError
from paceline.model.source import load_model
from paceline.model.spec import InputSpec, ModelSpec, TargetSpec

IMAGE = InputSpec((3, 8, 8), "float32")
FOUR = TargetSpec("class", 4)
WORDS = InputSpec((6,), "int64", 30)
NEXT = TargetSpec("tokens", 30)


def load(name="synthetic", inputs=IMAGE, targets=FOUR, base=None, **keys):
    return load_data(DataSpec(name=name, **keys), inputs, targets, "job.toml", *([base] if base else []))


def test_synthetic_sizes():
    for variant, samples in (("mnist", 70_000), ("imagenet", 1_280_000)):
        model = load_model(ModelSpec(name="resnet18", variant=variant))
        assert len(load(inputs=model.inputs, targets=model.targets).train) == samples
    assert len(load().train) == 10_240
    assert len(load(samples=1_281_167).train) == 1_281_167
    assert load().validation is None


def test_synthetic_samples_depend_on_number_and_seed_alone():
    first, again, other = load(), load(), load(seed=1)
    numbers = torch.tensor([9000, 3, 3])
    x, y = first.train.batch(numbers)
    assert torch.equal(x, again.train.batch(numbers)[0]) and torch.equal(y, again.train.batch(numbers)[1])
    assert torch.equal(x[1], x[2]) and not torch.equal(x[0], x[1])
    assert not torch.equal(x, other.train.batch(numbers)[0])
    assert x.shape == (3, 3, 8, 8) and set(first.train.batch(torch.arange(200))[1].tolist()) == {0, 1, 2, 3}


def test_synthetic_tokens():
    x, y = load(inputs=WORDS, targets=NEXT).train.batch(torch.arange(50))
    assert x.shape == y.shape == (50, 6) and x.max() < 30
    assert torch.equal(x[:, 1:], y[:, :-1])
    x, y = load(inputs=WORDS, targets=TargetSpec("class", 4)).train.batch(torch.arange(50))
    assert y.shape == (50,) and y.max() == 3
    x, y = load(inputs=WORDS, targets=TargetSpec("tokens", 30, masked=True)).train.batch(torch.arange(50))
    assert 0.05 < (x != y).float().mean() < 0.25 and set(x[x != y].tolist()) == {29}


def test_the_pool_is_small_whatever_is_asked_for():
    train = load(inputs=InputSpec((3, 512, 512), "float32"), samples=60_000).train
    assert train._inputs.numel() * 4 <= 33 << 20


@pytest.mark.parametrize(
    ("inputs", "targets"),
    [(IMAGE, FOUR), (WORDS, NEXT), (WORDS, FOUR), (WORDS, TargetSpec("tokens", 30, masked=True))],
)
def test_a_synthetic_set_on_disk(tmp_path, inputs, targets, monkeypatch):
    monkeypatch.setattr("paceline.data.synthetic._CHUNK_BYTES", 1000)
    write_synthetic(tmp_path / "a", inputs, targets, 50, seed=3)
    write_synthetic(tmp_path / "b", inputs, targets, 50, seed=3)
    first, second = (load(f"synthetic:{name}", inputs, targets, tmp_path, validation=0.2) for name in "ab")
    assert (len(first.train), len(first.validation), first.classes) == (40, 10, targets.classes)
    x, y = first.train.batch(torch.arange(40))
    u, v = second.train.batch(torch.arange(40))
    assert torch.equal(x, u) and torch.equal(y, v)
    example = [tensor.shape[1:] for tensor in (x, y)]
    assert example == [torch.Size(inputs.shape), torch.Size(inputs.shape if targets.kind == "tokens" else ())]
    assert len(x.flatten(1).unique(dim=0)) == 40
    if inputs is IMAGE:
        assert abs(x.mean()) < 0.1 and abs(x.std() - 1) < 0.1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_writing_replaces_a_synthetic_set_and_nothing_else(tmp_path):
    write_synthetic(tmp_path / "a", IMAGE, FOUR, 5)
    write_synthetic(tmp_path / "a", IMAGE, FOUR, 9)
    assert len(load("synthetic:a", base=tmp_path, validation=0.0).train) == 9
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("dear")
    with pytest.raises(FileError, match="exists and is not a synthetic set"):
        write_synthetic(tmp_path / "mine", IMAGE, FOUR, 5)
    assert (tmp_path / "mine/thesis.tex").read_text() == "dear"


def test_a_set_larger_than_the_disk_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"the set needs .* TiB, but only"):
        write_synthetic(tmp_path / "a", IMAGE, FOUR, 1 << 45)
    assert not list(tmp_path.iterdir())


def test_synthetic_sets_that_do_not_fit_or_are_damaged(tmp_path):
    path = write_synthetic(tmp_path / "a", IMAGE, FOUR, 5)
    with pytest.raises(FileError, match=r"has samples of 3x8x8, but the model takes 3x9x9"):
        load("synthetic:a", InputSpec((3, 9, 9), "float32"), base=tmp_path)
    with pytest.raises(FileError, match=r"has 4 classes, but the model only 3"):
        load("synthetic:a", targets=TargetSpec("class", 3), base=tmp_path)
    with pytest.raises(FileError, match="was written for 3x8x8 and class targets"):
        load("synthetic:a", WORDS, NEXT, tmp_path)
    (path / "inputs.bin").write_bytes(b"short")
    with pytest.raises(DataError, match="has 5 bytes, but its header needs 960"):
        load("synthetic:a", base=tmp_path)
    header = json.loads((path / "synthetic.json").read_text())
    (path / "synthetic.json").write_text(json.dumps(header | {"samples": "many"}))
    with pytest.raises(FileError, match=r"synthetic.json: samples: is 'many'"):
        load("synthetic:a", base=tmp_path)
    with pytest.raises(DataError, match="is not a synthetic set"):
        load("synthetic:b", base=tmp_path)


CUSTOM = """
import torch
from torch.utils.data import Dataset, TensorDataset
class Mine(Dataset):
    def __init__(self, n, shape=(3, 8, 8), label=1): self.n, self.shape, self.label = n, shape, label
    def __len__(self): return self.n
    def __getitem__(self, i):
        if i >= 7: raise OSError('disk\\ngone')
        return torch.full(self.shape, float(i), dtype=torch.float64), self.label
def one(): return Mine(7)
def two(): return Mine(5), Mine(2)
def tensors(): return TensorDataset(torch.rand(10, 3, 8, 8), torch.arange(10) % 4)
def words(): return TensorDataset(torch.arange(60).reshape(10, 6) % 30, torch.arange(60).reshape(10, 6) % 30)
def named():
    found = Mine(5)
    found.classes = ['a', 'b', 'c', 'd', 'e']
    return found
def wrong_shape(): return Mine(5, shape=(1, 8, 8))
def wrong_label(): return Mine(5, label=4)
def negative_label(): return Mine(5, label=-3)
def broken(): return Mine(20)
def empty(): return Mine(0)
def nothing(): return None
def number(): return 5
def fails(): raise RuntimeError('no\\nway')
def regression(): return TensorDataset(torch.rand(10, 3, 8, 8), torch.rand(10, 2))
def triples(): return TensorDataset(torch.rand(10, 3, 8, 8), torch.arange(10), torch.arange(10))
"""


@pytest.fixture
def custom(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "sets.py").write_text(CUSTOM)
    return tmp_path


def test_datasets_of_ones_own(custom):
    found = load("sets.py:one", base=custom, validation=0.0)
    x, y = found.train.batch(torch.tensor([6, 2]))
    assert x.dtype == torch.float32 and x[:, 0, 0, 0].tolist() == [6, 2] and y.tolist() == [1, 1]
    found = load("sets.py:two", base=custom)
    assert (len(found.train), len(found.validation), found.classes) == (5, 2, 4)
    assert len(load("sets.py:tensors", base=custom, validation=0.2).validation) == 2
    x, y = load("sets.py:words", WORDS, NEXT, custom).train.batch(torch.arange(3))
    assert x.dtype == y.dtype == torch.int64
    assert load("sets.py:regression", base=custom).train.batch(torch.arange(3))[1].shape == (3, 2)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("wrong_shape", "has samples of 1x8x8, but the model takes 3x8x8"),
        ("wrong_label", "has a target 4, but the model has classes 0 to 3"),
        ("negative_label", "has a target -3"),
        ("named", "has 5 classes, but the model only 4"),
        ("empty", "returns an empty set"),
        ("nothing", "returns no training set"),
        ("number", "returns something of type int, must be a Dataset"),
        ("fails", "fails with RuntimeError: no way (line 2"),
        ("triples", "samples 0 to 0 cannot be made into a batch of (input, target)"),
        ("gone", "has no 'gone'"),
    ],
)
def test_datasets_that_do_not_work(custom, name, sentence):
    with pytest.raises((FileError, DataError)) as failure:
        load(f"sets.py:{name}", base=custom)
    assert sentence in str(failure.value) and "\n" not in str(failure.value)


def test_a_sample_that_fails_later_is_named(custom):
    train = load("sets.py:broken", base=custom, validation=0.0).train
    with pytest.raises(DataError, match=r"samples 7 to 9 cannot be made into a batch .* OSError: disk gone"):
        train.batch(torch.tensor([7, 9]))
