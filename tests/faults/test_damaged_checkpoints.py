"""Two hundred checkpoints that are not what was written: none is loaded or executed, the one before is."""

import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from paceline.train.checkpoint.manifest import NAME, Manifest, Position
from paceline.train.checkpoint.save import Place, Saver
from paceline.train.checkpoint.shelf import checkpoints, newest_whole
from paceline.train.checkpoint.storage import load, verify

WORKERS = 2
OLDER, NEWER = 10, 20


def state_of(rank: int, step: int) -> dict[str, torch.Tensor]:
    """What a worker has: weights that all have alike, statistics of its own."""
    source = torch.Generator().manual_seed(step)
    weights = {f"model/{n}.weight": torch.randn(17, 5, generator=source) for n in range(6)}
    return weights | {"model/norm.mean": torch.full((9,), float(rank + step))}


def save_by_all(home: Path, step: int) -> None:
    savers = [Saver(Place(home, rank, WORKERS, "0-0", keep=9)) for rank in range(WORKERS)]
    for rank, saver in enumerate(savers):
        saver.save(state_of(rank, step), Manifest({}, {}, workers=WORKERS, position=Position(step)))
    for saver in savers:
        saver.wait()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    home = tmp_path_factory.mktemp("shelf") / "checkpoints"
    for step in (OLDER, NEWER):
        save_by_all(home, step)
    assert [path.name for path in checkpoints(home)] == ["step-00000020", "step-00000010"]
    return home


class Bomb:
    """A pickle that leaves a mark when somebody loads it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


def truncate(path, chance, mark):
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def flip(path, chance, mark):
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def lengthen(path, chance, mark):
    path.write_bytes(path.read_bytes() + bytes(chance.randrange(1, 100)))


def remove(path, chance, mark):
    path.unlink()


def empty(path, chance, mark):
    path.write_bytes(b"")


def bomb(path, chance, mark):
    torch.save(Bomb(mark), path) if chance.random() < 0.5 else path.write_bytes(pickle.dumps(Bomb(mark)))


def lead_elsewhere(path, chance, mark):
    kept = path.with_name("kept")
    path.rename(kept)
    path.symlink_to(kept)


def swap(path, chance, mark):
    """The file of the older checkpoint in place of the newer one's."""
    shutil.copy(path.parent.parent / "step-00000010" / path.name, path)


DAMAGES = (truncate, flip, flip, flip, lengthen, remove, empty, bomb, lead_elsewhere, swap)


def damaged(number):
    """What the test with this number does: to which file, and how."""
    chance = random.Random(number)
    names = (NAME, "part-0.tensors", "part-1.tensors")
    return DAMAGES[number % len(DAMAGES)], names[number // len(DAMAGES) % len(names)], chance


def check_the_older_is_taken(home, mark):
    warned: list[str] = []
    found = newest_whole(home, warned.append)
    assert not mark.exists()
    assert found is not None and found.manifest.position.step == OLDER
    assert len(warned) == 1 and "step-00000020" in warned[0] and "\n" not in warned[0], warned
    loaded = {name: torch.zeros_like(value) for name, value in state_of(0, OLDER).items() if "weight" in name}
    load(found.folder, found.manifest, loaded)
    assert all(torch.equal(value, state_of(0, OLDER)[name]) for name, value in loaded.items())


@pytest.mark.parametrize("block", range(10))
def test_two_hundred_damaged_checkpoints(shelf, tmp_path, block):
    seen = set()
    for number in range(20 * block, 20 * block + 20):
        damage, name, chance = damaged(number)
        home, mark = tmp_path / str(number), tmp_path / f"mark-{number}"
        shutil.copytree(shelf, home)
        damage(home / "step-00000020" / name, chance, mark)
        check_the_older_is_taken(home, mark)
        seen.add((damage.__name__, name))
    assert len(seen) >= 10


def test_bombs_in_every_file_at_once(shelf, tmp_path):
    home, mark = tmp_path / "home", tmp_path / "mark"
    shutil.copytree(shelf, home)
    for path in (home / "step-00000020").iterdir():
        path.write_bytes(pickle.dumps(Bomb(mark)))
    (home / "step-00000020" / ".metadata").write_bytes(pickle.dumps(Bomb(mark)))  # where torch keeps its own
    check_the_older_is_taken(home, mark)


def test_the_bombs_would_have_gone_off(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "mark")))
    assert (tmp_path / "mark").exists()


def test_nothing_whole_is_nothing(shelf, tmp_path):
    home, warned = tmp_path / "home", []
    shutil.copytree(shelf, home)
    for path in home.rglob("part-1.tensors"):
        path.unlink()
    assert newest_whole(home, warned.append) is None and len(warned) == 2
    assert newest_whole(tmp_path / "nowhere", warned.append) is None


def test_a_file_that_changes_after_it_was_verified_is_not_loaded(shelf, tmp_path):
    from paceline.errors import FileError

    home = tmp_path / "home"
    shutil.copytree(shelf, home)
    folder = home / "step-00000020"
    manifest = verify(folder)
    for name in ("part-0.tensors", "part-1.tensors"):
        flip(folder / name, random.Random(1), None)
    with pytest.raises(FileError, match="digest differs"):
        load(folder, manifest, {"model/0.weight": torch.zeros(17, 5)})


def test_deep_and_huge_json_is_a_sentence(shelf, tmp_path):
    from paceline.errors import FileError

    home = tmp_path / "home"
    shutil.copytree(shelf, home)
    for text in (
        "[" * 100_000,
        "1" * 10_000,
        '{"digest": 3, "content": NaN}',
        json.dumps({"digest": [], "content": {}}),
    ):
        (home / "step-00000020" / NAME).write_text(text)
        with pytest.raises(FileError):
            verify(home / "step-00000020")


def test_a_worker_that_never_wrote_leaves_nothing_behind_that_counts(tmp_path):
    home = tmp_path / "checkpoints"
    save_by_all(home, OLDER)
    alone = Saver(Place(home, 0, WORKERS, "0-0", keep=9))
    alone.save(state_of(0, NEWER), Manifest({}, {}, workers=WORKERS, position=Position(NEWER)))
    alone.abandon()
    assert [path.name for path in checkpoints(home)] == ["step-00000010"]
    assert len(list(home.glob(".step-*.pending"))) == 1
    Saver(Place(home, 0, WORKERS, "1-0", keep=9))  # the next attempt sweeps
    assert not list(home.glob(".step-*"))


def test_a_full_disk_is_said_and_training_goes_on(tmp_path, capfd):
    home = tmp_path / "checkpoints"
    home.write_text("a file where the folder should be")
    saver = Saver(Place(home, 0, 1, "0-0", keep=9))
    saver.save(state_of(0, 1), Manifest({}, {}, position=Position(1)))
    saver.wait()
    assert "the checkpoint after step 1 was not written" in capfd.readouterr().err


def test_the_oldest_go_and_a_damaged_one_is_replaced(tmp_path):
    home = tmp_path / "checkpoints"
    saver = Saver(Place(home, 0, 1, "0-0", keep=2))
    for step in (1, 2, 3, 3):
        saver.save(state_of(0, step), Manifest({}, {}, position=Position(step)))
        saver.wait()
    assert [path.name for path in checkpoints(home)] == ["step-00000003", "step-00000002"]
    assert not list(home.glob(".*"))


SAVING = """
import sys
from pathlib import Path
import torch
from paceline.train.checkpoint.manifest import Manifest, Position
from paceline.train.checkpoint.save import Place, Saver
torch.set_num_threads(1)
savers = [Saver(Place(Path(sys.argv[1]), rank, 2, sys.argv[2], keep=2)) for rank in range(2)]
for step in range(1, 10_000):
    for saver in savers:
        state = {f"model/{n}": torch.full((100_000,), float(step)) for n in range(10)}
        saver.save(state, Manifest({}, {}, workers=2, position=Position(int(sys.argv[3]) + step)))
"""


def test_kills_during_a_save_leave_the_one_before(tmp_path):
    home = tmp_path / "checkpoints"
    chance, reached = random.Random(4), 0
    for attempt in range(3):
        words = [sys.executable, "-c", SAVING, str(home), f"{attempt}-0", str(reached)]
        process = subprocess.Popen(words)
        try:
            last = time.monotonic() + 60
            while not [path for path in checkpoints(home) if int(path.name[5:]) > reached]:
                assert process.poll() is None and time.monotonic() < last
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.2))
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        warned: list[str] = []
        found = newest_whole(home, warned.append)
        assert found is not None and not warned
        began, reached = reached, found.manifest.position.step
        loaded = {f"model/{n}": torch.zeros(100_000) for n in range(10)}
        load(found.folder, found.manifest, loaded)
        assert all(bool((value == reached - began).all()) for value in loaded.values())
