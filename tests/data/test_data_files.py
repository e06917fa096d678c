"""Sets in files: IDX, CIFAR-10, image folders, text; whole ones, damaged ones, and ones that do not fit."""

import gzip
import math
import struct

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from paceline.data.idx import read_idx
from paceline.data.source import load_data
from paceline.data.spec import DataSpec
from paceline.errors import DataError, FileError, PacelineError
from paceline.model.source import load_model
from paceline.model.spec import InputSpec, ModelSpec, TargetSpec

GREY = InputSpec((1, 6, 5), "float32")
COLOUR = InputSpec((3, 32, 32), "float32")
TEN = TargetSpec("class", 10)


def load(name, inputs, base, targets=TEN, **keys):
    return load_data(DataSpec(name=name, **keys), inputs, targets, "job.toml", base)


def everything(samples):
    return samples.batch(torch.arange(len(samples)))


def idx(shape, values, kind=8):
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + bytes(values)


def idx_folder(folder, parts=(("train", 20), ("t10k", 8)), pack=lambda data: data, ending=""):
    folder.mkdir(exist_ok=True)
    for part, count in parts:
        images = [(7 * i) % 256 for i in range(count * 30)]
        (folder / f"{part}-images-idx3-ubyte{ending}").write_bytes(pack(idx((count, 6, 5), images)))
        (folder / f"{part}-labels-idx1-ubyte{ending}").write_bytes(pack(idx((count,), [i % 10 for i in range(count)])))
    return folder


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=4), zipped=st.booleans(), data=st.data())
def test_idx_round_trip(tmp_path, shape, zipped, data):
    values = data.draw(st.binary(min_size=math.prod(shape), max_size=math.prod(shape)))
    content = idx(shape, values)
    (tmp_path / "x").write_bytes(gzip.compress(content) if zipped else content)
    found = read_idx(tmp_path / "x")
    assert list(found.shape) == shape and bytes(found.flatten().tolist()) == values


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(cut=st.integers(0, 600), flip=st.integers(0, 300), value=st.integers(0, 255), zipped=st.booleans())
def test_damage_is_always_a_sentence(tmp_path, cut, flip, value, zipped):
    content = bytearray(idx((4, 5, 6), range(120)))
    content = bytearray(gzip.compress(bytes(content))) if zipped else content
    if flip < len(content):
        content[flip] = value
    (tmp_path / "x").write_bytes(bytes(content[:cut]))
    try:
        read_idx(tmp_path / "x")
    except DataError as error:
        assert str(tmp_path / "x") in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "starts with nothing"),
        (b"PK\3\4 something", "is not an IDX file (it starts with 504b0304)"),
        (idx((2,), [1, 2], kind=0x0D), "holds IDX type 0x0d, but only bytes"),
        (idx((2, 2), [1, 2])[:6], "ends within its header"),
        (idx((2, 2), [1, 2]), "promises 4 bytes, but it has only 2"),
        (idx((2,), [1, 2, 3]), "promises 2 bytes, but it has more"),
        (idx((1 << 31, 1 << 31), [1]), "but it has only 1"),
        (idx((0, 5), []), "holds no samples"),
        (gzip.compress(idx((2,), [1, 2]), mtime=0)[:-6], "cannot be read"),
    ],
)
def test_damaged_idx_files(tmp_path, content, sentence):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataError) as failure:
        read_idx(tmp_path / "x")
    assert sentence in str(failure.value)


@pytest.mark.parametrize("zipped", [False, True])
def test_an_idx_folder(tmp_path, zipped):
    idx_folder(tmp_path / "set", pack=gzip.compress if zipped else bytes, ending=".gz" if zipped else "")
    found = load("idx:set", GREY, tmp_path)
    assert (len(found.train), len(found.validation), found.classes) == (20, 8, 10)
    inputs, targets = found.train.batch(torch.tensor([3, 0]))
    assert inputs.shape == (2, 1, 6, 5) and inputs.dtype == torch.float32 and targets.tolist() == [3, 0]
    assert inputs[1, 0, 0, 1].item() == pytest.approx((7 / 255 - 0.5) / 0.5)


def test_an_idx_folder_without_a_test_part_is_split(tmp_path):
    idx_folder(tmp_path / "set", parts=[("train", 20)])
    found = load("idx:set", GREY, tmp_path, validation=0.25)
    assert (len(found.train), len(found.validation)) == (15, 5)
    rows = torch.cat([everything(found.train)[0], everything(found.validation)[0]])
    assert len(rows.flatten(1).unique(dim=0)) == len(
        everything(load("idx:set", GREY, tmp_path, validation=0.0).train)[0]
    )


def test_samples_caps_the_training_set_with_a_mixed_choice(tmp_path):
    idx_folder(tmp_path / "set")
    found = load("idx:set", GREY, tmp_path, samples=6)
    assert (len(found.train), len(found.validation)) == (6, 8)
    targets = everything(found.train)[1].tolist()
    assert targets != sorted(targets)
    assert targets == everything(load("idx:set", GREY, tmp_path, samples=6).train)[1].tolist()
    assert targets != everything(load("idx:set", GREY, tmp_path, samples=6, seed=1).train)[1].tolist()
    assert len(load("idx:set", GREY, tmp_path, samples=600).train) == 20


def test_idx_folders_that_do_not_fit_together(tmp_path):
    folder = idx_folder(tmp_path / "set")
    (folder / "train-labels-idx1-ubyte").write_bytes(idx((19,), [0] * 19))
    with pytest.raises(DataError, match=r"has 19 labels, but train-images-idx3-ubyte has 20 images"):
        load("idx:set", GREY, tmp_path)
    (folder / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="there is no train-labels"):
        load("idx:set", GREY, tmp_path)
    with pytest.raises(DataError, match="there is no such folder"):
        load("idx:none", GREY, tmp_path)


def test_sets_that_do_not_fit_the_model(tmp_path):
    idx_folder(tmp_path / "set")
    with pytest.raises(
        FileError, match=r"job.toml: data.name: idx:set has samples of 1x6x5, but the model takes 3x32x32"
    ):
        load("idx:set", COLOUR, tmp_path)
    with pytest.raises(FileError, match=r"idx:set has 10 classes, but the model only 4"):
        load("idx:set", GREY, tmp_path, TargetSpec("class", 4))
    with pytest.raises(FileError, match=r"has images in classes, but the model takes tokens:5x6"):
        load("idx:set", InputSpec((5,), "int64", 6), tmp_path)


def test_mnist_that_was_not_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path))
    with pytest.raises(DataError, match="run `paceline data fetch fashion-mnist`"):
        load("fashion-mnist", InputSpec((1, 28, 28), "float32"), tmp_path)
    idx_folder(tmp_path / "mnist")
    assert len(load("mnist", GREY, tmp_path).train) == 20


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fashion", "there is no data set 'fashion'; did you mean 'fashion-mnist'"),
        ("folder", "there is no data set 'folder'"),
        ("text:", "needs something after the colon"),
        ("mnist:here", "cannot be imported"),
    ],
)
def test_unknown_names(tmp_path, name, sentence):
    with pytest.raises(FileError) as failure:
        load(name, COLOUR, tmp_path)
    assert str(failure.value).startswith("job.toml: data.name: ") and sentence in str(failure.value)


def cifar_folder(folder):
    inner = folder / "cifar-10-batches-bin"
    inner.mkdir()
    for name, count in (("data_batch_1", 5), ("data_batch_2", 4), ("test_batch", 3)):
        records = b"".join(bytes([i % 10]) + bytes([i] * 1024 + [100] * 1024 + [255] * 1024) for i in range(count))
        (inner / f"{name}.bin").write_bytes(records)
    return inner


def test_cifar10(tmp_path):
    cifar_folder(tmp_path)
    found = load(f"cifar10:{tmp_path}", COLOUR, tmp_path)
    assert (len(found.train), len(found.validation), found.classes) == (9, 3, 10)
    inputs, targets = everything(found.train)
    assert targets.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3]
    assert inputs[4, 0].unique().item() == pytest.approx((4 / 255 - 0.4914) / 0.2470, rel=1e-5)
    assert inputs[4, 2].unique().item() == pytest.approx((1 - 0.4465) / 0.2616, rel=1e-5)


def test_damaged_cifar10(tmp_path):
    inner = cifar_folder(tmp_path)
    (inner / "data_batch_2.bin").write_bytes(bytes(3073) + b"x")
    with pytest.raises(DataError, match="has 3074 bytes, not a multiple of 3073"):
        load("cifar10:.", COLOUR, tmp_path)
    (inner / "data_batch_2.bin").write_bytes(b"\x0b" + bytes(3072))
    with pytest.raises(DataError, match="has a label 11"):
        load("cifar10:.", COLOUR, tmp_path)
    with pytest.raises(DataError, match="there is no data_batch"):
        load("cifar10:elsewhere", COLOUR, tmp_path)


def image_folder(root, parts=("train", "val"), count=3):
    for part in parts:
        for number, name in enumerate(("ant", "bee")):
            place = root / part / name
            place.mkdir(parents=True)
            for i in range(count):
                ending = ("png", "jpg", "JPEG")[i % 3]
                Image.new("RGB", (40 + i, 50), (255 * number, 0, 128)).save(place / f"{i}.{ending}")
            (place / "notes.txt").write_text("not an image")


def test_an_image_folder(tmp_path):
    image_folder(tmp_path / "set")
    found = load("folder:set", COLOUR, tmp_path)
    assert (len(found.train), len(found.validation), found.classes) == (6, 6, 2)
    inputs, targets = found.train.batch(torch.tensor([5, 0]))
    assert inputs.shape == (2, 3, 32, 32) and targets.tolist() == [1, 0]
    assert inputs[0, 0].mean().item() == pytest.approx((1 - 0.485) / 0.229, abs=0.05)
    assert inputs[1, 0].mean().item() == pytest.approx((0 - 0.485) / 0.229, abs=0.05)


def test_an_image_folder_without_parts_and_in_grey(tmp_path):
    image_folder(tmp_path, parts=("set",), count=10)
    found = load("folder:set", InputSpec((1, 8, 9), "float32"), tmp_path, validation=0.2)
    assert (len(found.train), len(found.validation)) == (16, 4)
    assert everything(found.train)[0].shape == (16, 1, 8, 9)


def test_image_folders_that_do_not_work(tmp_path):
    image_folder(tmp_path / "set")
    (tmp_path / "set/train/ant/0.png").write_bytes(b"not a picture")
    found = load("folder:set", COLOUR, tmp_path)
    with pytest.raises(DataError, match=r"ant/0.png: is not an image"):
        everything(found.train)
    (tmp_path / "set/val/cow").mkdir()
    with pytest.raises(DataError, match="has a class 'cow'"):
        load("folder:set", COLOUR, tmp_path)
    (tmp_path / "empty/class").mkdir(parents=True)
    with pytest.raises(DataError, match="has no image in its class folders"):
        load("folder:empty", COLOUR, tmp_path)
    with pytest.raises(DataError, match="has no folder in it"):
        load("folder:empty/class", COLOUR, tmp_path)
    with pytest.raises(DataError, match="there is no such folder"):
        load("folder:none", COLOUR, tmp_path)
    with pytest.raises(DataError, match="1 or 3 channels, but the model takes 4"):
        load("folder:set", InputSpec((4, 8, 8), "float32"), tmp_path)


def gpt(length):
    source = load_model(ModelSpec(name="gpt-nano", input=str(length)))
    return source.inputs, source.targets


def test_text_is_read_byte_by_byte(tmp_path):
    text = bytes(range(32, 127)) * 3
    (tmp_path / "a.txt").write_bytes(text)
    inputs, targets = gpt(10)
    found = load("text:a.txt", inputs, tmp_path, targets, validation=0.25)
    assert (len(found.train), len(found.validation), found.classes) == (21, 7, 256)
    x, y = found.train.batch(torch.tensor([2, 0]))
    assert bytes(x[0].tolist()) == text[20:30] and bytes(y[0].tolist()) == text[21:31]
    assert bytes(everything(found.validation)[0].flatten().tolist()) == text[210:280]
    assert load("text:a.txt", inputs, tmp_path, targets, validation=0.0).validation is None


def test_text_for_an_encoder_is_masked_the_same_in_any_batch(tmp_path):
    (tmp_path / "a.txt").write_bytes(bytes(range(256)) * 200)
    source = load_model(ModelSpec(name="bert-base", input="64"))
    found = load("text:a.txt", source.inputs, tmp_path, source.targets)
    x, y = everything(found.train)
    hidden = x == 256
    assert hidden.float().mean().item() == pytest.approx(0.15, abs=0.01)
    assert torch.equal(x[~hidden], y[~hidden])
    assert hidden.float().mean(0).std() < 0.05 and len(hidden.unique(dim=0)) > 0.95 * len(hidden)
    assert torch.equal(found.train.batch(torch.tensor([5, 3]))[0], x[[5, 3]])


def test_texts_that_do_not_fit(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"short")
    inputs, targets = gpt(10)
    with pytest.raises(DataError, match="has 5 bytes, but one sample takes 11"):
        load("text:a.txt", inputs, tmp_path, targets)
    with pytest.raises(DataError, match="there is no such file"):
        load("text:b.txt", inputs, tmp_path, targets)
    with pytest.raises(FileError, match="needs a model that reads and names tokens, this one takes 3x32x32"):
        load("text:a.txt", COLOUR, tmp_path)
    with pytest.raises(FileError, match="needs a vocabulary of 256"):
        load("text:a.txt", InputSpec((4,), "int64", 99), tmp_path, TargetSpec("tokens", 99))


def test_digits_are_resized_to_the_model(tmp_path):
    pytest.importorskip("sklearn")
    found = load("digits", COLOUR, tmp_path)
    assert len(found.train) + len(found.validation) == 1797 and found.classes == 10
    inputs, _ = found.train.batch(torch.arange(5))
    assert inputs.shape == (5, 3, 32, 32) and torch.equal(inputs[:, 0], inputs[:, 2])
    plain = everything(load("digits", InputSpec((1, 8, 8), "float32"), tmp_path, validation=0.0).train)[0]
    assert plain.mean().abs() < 0.01 and abs(plain.std() - 1) < 0.01


def test_without_scikit_learn_the_command_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(PacelineError, match="pip install scikit-learn"):
        load("digits", COLOUR, tmp_path)
