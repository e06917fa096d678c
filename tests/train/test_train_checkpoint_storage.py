"""Blocks, parts, manifests and the sharing out of what several workers hold."""

import json
import math

import pytest
import torch
import torch.distributed.checkpoint as dcp
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import FileError, RunError
from paceline.train.checkpoint.block import Block, Stage
from paceline.train.checkpoint.manifest import ITEM_BYTES, NAME, Manifest, Position, read_manifest, to_text
from paceline.train.checkpoint.part import assemble, write_part, write_through
from paceline.train.checkpoint.planner import TensorLoadPlanner, TensorSavePlanner
from paceline.train.checkpoint.share import Claim, share_out
from paceline.train.checkpoint.storage import TensorReader, TensorWriter, load, verify

ODD = {
    "scalar": torch.tensor(3.5),
    "empty": torch.empty(0, 4),
    "half": torch.arange(7, dtype=torch.bfloat16),
    "flags": torch.tensor([True, False, True]),
    "turns": torch.tensor([1 + 2j, 3 - 1j]),
    "across": torch.arange(12.0).reshape(3, 4).t(),
    "expanded": torch.ones(1).expand(5),
    "count": torch.tensor(1 << 40),
}


def zeros(state):
    return {name: torch.zeros(value.shape, dtype=value.dtype) for name, value in state.items()}


def stored(folder, state):
    """Write a state as one worker does, and return its manifest."""
    whole = assemble([write_part(folder, 0, Stage().copy(state))])
    write_through(to_text(whole).encode(), folder / NAME)
    return whole


def test_what_is_read_is_what_was_written(tmp_path):
    stored(tmp_path, ODD)
    found = zeros(ODD)
    load(tmp_path, verify(tmp_path), found)
    for name, value in ODD.items():
        assert torch.equal(found[name], value), name
    assert {path.name for path in tmp_path.iterdir()} == {NAME, "part-0.tensors"}


def test_torchs_own_save_and_load_work_on_it_too(tmp_path):
    with pytest.warns(UserWarning, match="single process"):
        dcp.save(ODD, storage_writer=TensorWriter(tmp_path), planner=TensorSavePlanner(), no_dist=True)
    found = zeros(ODD)
    with pytest.warns(UserWarning, match="single process"):
        dcp.load(found, storage_reader=TensorReader(tmp_path), planner=TensorLoadPlanner(), no_dist=True)
    assert all(torch.equal(found[name], value) for name, value in ODD.items())
    verify(tmp_path)


def test_what_is_no_tensor_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(RunError, match=r"^words is not a tensor"):
        Stage().copy({"words": ["pickled", "elsewhere"]})
    with pytest.raises(RunError, match="sparse_coo"):
        Stage().copy({"holes": torch.eye(3).to_sparse()})


def test_a_stage_reuses_its_memory_and_holds_a_copy(tmp_path):
    stage, state = Stage(), {"weight": torch.arange(6.0)}
    first = stage.copy(state)[0].data
    state["weight"] += 1
    assert first.tolist() == [0, 1, 2, 3, 4, 5]
    assert stage.copy(state)[0].data.data_ptr() == first.data_ptr()


def test_shards_of_one_tensor_are_read_by_whoever_needs_a_part(tmp_path):
    whole = torch.arange(20.0).reshape(5, 4)
    parts = [
        write_part(tmp_path, rank, [Block("w", (5, 4), (begin, 0), whole[begin:end].contiguous())])
        for rank, (begin, end) in enumerate(((0, 2), (2, 5)))
    ]
    manifest = assemble(parts)
    found = {"w": torch.zeros(5, 4)}
    load(tmp_path, manifest, found)
    assert torch.equal(found["w"], whole)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"w": torch.zeros(3, 2)}, "Size mismatch"),
        ({"w": torch.zeros(2, 3, dtype=torch.float64)}, "float64"),
        ({"other": torch.zeros(2, 3)}, "Missing key"),
    ],
)
def test_what_does_not_fit_is_a_sentence(tmp_path, wanted, says):
    manifest = stored(tmp_path, {"w": torch.ones(2, 3)})
    with pytest.raises(RunError, match=says):
        load(tmp_path, manifest, wanted)


def test_a_manifest_proves_itself_and_keeps_its_place():
    manifest = Manifest(files={}, tensors={}, workers=3, global_batch=96, position=Position(7, 1, 2, 0.5))
    assert json.loads(to_text(manifest))["content"]["position"]["epoch_step"] == 2


OUTSIDE = [
    ("files", "../../etc/passwd", {"size": 1, "digest": ""}),
    ("files", "part-0.tensors", {"size": -1, "digest": ""}),
    ("tensors", "w", {"dtype": "float32", "shape": [4], "chunks": [("part-0.tensors", 0, [0], [5])]}),
    ("tensors", "w", {"dtype": "float32", "shape": [400], "chunks": [("part-0.tensors", 0, [0], [400])]}),
    ("tensors", "w", {"dtype": "float32", "shape": [4], "chunks": [("part-0.tensors", 1 << 20, [0], [4])]}),
    ("tensors", "w", {"dtype": "float32", "shape": [4], "chunks": [("part-0.tensors", -64, [0], [4])]}),
    ("tensors", "w", {"dtype": "float32", "shape": [4], "chunks": [("part-9.tensors", 0, [0], [4])]}),
    ("tensors", "w", {"dtype": "float32", "shape": [-4], "chunks": []}),
    ("tensors", "w", {"dtype": "__class__", "shape": [4], "chunks": []}),
    ("position", "step", -3),
]


@pytest.mark.parametrize(("table", "key", "value"), OUTSIDE, ids=lambda value: str(value)[:40])
def test_a_manifest_that_points_elsewhere_is_refused_whoever_signed_it(tmp_path, table, key, value):
    stored(tmp_path, {"w": torch.ones(4)})
    content = json.loads((tmp_path / NAME).read_text())["content"]
    if isinstance(value, dict) and "chunks" in value:
        names = ("file", "place", "offsets", "sizes")
        value = value | {"chunks": [dict(zip(names, chunk)) for chunk in value["chunks"]]}
    content[table][key] = value
    from paceline.train.checkpoint.manifest import _digest

    text = json.dumps(content, sort_keys=True)
    (tmp_path / NAME).write_text(f'{{"digest": "{_digest(text)}", "content": {text}}}')
    with pytest.raises(FileError):
        read_manifest(tmp_path)


def test_every_type_that_a_manifest_may_name_is_torchs():
    for name, size in ITEM_BYTES.items():
        assert getattr(torch, name).itemsize == size


def claims(*tables):
    return [[Claim(name, (0,), size, digest) for name, size, digest in table] for table in tables]


def test_what_is_alike_is_written_once_and_what_differs_by_each():
    duties = share_out(claims([("w", 8, "a"), ("mean", 4, "x")], [("w", 8, "a"), ("mean", 4, "y")]))
    assert [sorted(duty.name for duty in worker) for worker in duties] == [["own/0/mean", "w"], ["own/1/mean"]]


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=30),
    st.integers(1, 6),
    st.data(),
)
def test_duties_hold_every_block_once_and_are_even(sizes, workers, data):
    alike = [data.draw(st.booleans()) for _ in sizes]
    tables = [
        [(f"t{n}", size, "same" if alike[n] else f"{rank}") for n, size in enumerate(sizes)] for rank in range(workers)
    ]
    duties = share_out(claims(*tables))
    names = sorted(duty.name for worker in duties for duty in worker)
    differing = [n for n in range(len(sizes)) if not alike[n] and workers > 1]
    expected = [f"t{n}" for n in range(len(sizes)) if n not in differing]
    expected += [f"own/{rank}/t{n}" for n in differing for rank in range(workers)]
    assert names == sorted(expected)
    loads = [sum(sizes[duty.claim] for duty in worker) for worker in duties]
    assert max(loads) - min(loads) <= max(sizes)
    assert sum(loads) == sum(math.prod((size, workers if n in differing else 1)) for n, size in enumerate(sizes))
