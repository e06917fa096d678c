import math
import multiprocessing
import sqlite3
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import FileError
from paceline.store import database
from paceline.store.database import MIGRATIONS, Record, Store


def note(**fields) -> dict:
    return {"kind": "note", "version": 1, **fields}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / "paceline.sqlite"


def test_what_is_added_comes_back(path):
    data = note(text="schön", numbers=[1, 2.5, None, True], nested={"a": {"b": 1e-300}})
    with Store(path) as store:
        number = store.add(data, run_id="r1")
    with Store(path) as store:
        record = store.get(number)
    assert record.data == data
    assert list(record.data) == list(data)
    assert (record.id, record.kind, record.version, record.run_id) == (number, "note", 1, "r1")
    assert record.created.endswith("+00:00")


def test_find_by_kind_run_and_number_newest_first(path):
    with Store(path) as store:
        for run, kind in [
            ("a", "run"),
            ("a", "prediction"),
            ("b", "run"),
            (None, "prediction"),
            ("a", "run"),
        ]:
            store.add({"kind": kind, "version": 1}, run_id=run)

        def ids(**how):
            return [record.id for record in store.find(**how)]

        assert ids() == [5, 4, 3, 2, 1]
        assert ids(kind="run") == [5, 3, 1]
        assert ids(run_id="a") == [5, 2, 1]
        assert ids(kind="run", run_id="a", newest=1) == [5]
        assert ids(newest=0) == []
        assert ids(kind="none") == []
        assert store.runs() == ("a", "b")
        with pytest.raises(ValueError, match="must not be negative"):
            store.find(newest=-1)


def test_nobody_can_inject_a_statement(path):
    with Store(path) as store:
        store.add(note(), run_id="x'; DROP TABLE record; --")
        assert store.find(run_id="' OR 1 = 1 --") == []
        assert store.runs() == ("x'; DROP TABLE record; --",)


def test_an_unknown_number_is_a_sentence(path):
    with Store(path) as store, pytest.raises(FileError, match="holds no record 7"):
        store.get(7)


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({"version": 1}, "kind"),
        ({"kind": "", "version": 1}, "kind"),
        ({"kind": "note"}, "note.version"),
        ({"kind": "note", "version": 0}, "note.version"),
        ({"kind": "note", "version": True}, "note.version"),
        (note(x=math.nan), "note.x"),
        (note(x=[0.0, {"y": -math.inf}]), "note.x.1.y"),
        (note(x={"y": object()}), "note.x.y"),
    ],
)
def test_what_cannot_be_kept_names_its_key_and_leaves_nothing(path, data, key):
    with Store(path) as store:
        with pytest.raises(FileError) as caught:
            store.add(data)
        assert caught.value.key == key
        assert store.find() == []


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8).filter(lambda key: key not in ("kind", "version")), json_values, max_size=4))
def test_any_json_object_comes_back(fields):
    with Store(":memory:") as store:
        assert store.get(store.add(note(**fields))).data == note(**fields)


def _write(job):
    path, who, count = job
    for number in range(count):
        with Store(path) as store:  # opening too: the first ones race to make the table
            store.add(note(number=number), run_id=who)
    return who


def test_processes_may_write_at_once(path):
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_write, [(str(path), "a", 25), (str(path), "b", 25)]))
    with Store(path) as store:
        for who in "ab":
            assert sorted(record.data["number"] for record in store.find(run_id=who)) == list(range(25))


def test_a_writer_waits_for_another(path):
    Store(path).close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.rollback)
    start = time.monotonic()
    with Store(path) as store:
        release.start()
        store.add(note())
        assert time.monotonic() - start > 0.2
        assert len(store.find()) == 1
    release.join()
    other.close()


def test_a_store_that_stays_busy_is_a_sentence(path):
    Store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Store(path, patience_seconds=0.05) as store:
        with pytest.raises(FileError, match="is busy with another process"):
            store.add(note())
        other.rollback()
        assert store.add(note()) == 1
    other.close()


def test_a_failed_commit_leaves_nothing_open(path):
    Store(path).close()
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM record").fetchone()  # holds a shared lock, which a commit has to wait for
    with Store(path, patience_seconds=0.05) as store:
        with pytest.raises(FileError, match="is busy"):
            store.add(note())
        reader.rollback()
        assert store.add(note()) == 1
    reader.close()


def test_the_journal_is_never_a_wal(path):
    with Store(path) as store:
        store.add(note())
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    raw.execute("PRAGMA journal_mode = WAL")
    raw.close()
    with Store(path) as store:
        assert len(store.find()) == 1
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    raw.close()


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to have a header" * 40, b"x"])
def test_a_file_that_is_no_database_is_refused(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(FileError, match="is damaged or not a store"):
        Store(path)
    assert path.read_bytes() == content


def test_a_database_cut_short_is_refused(path):
    with Store(path) as store:
        for _ in range(50):
            store.add(note(text="x" * 1000))
    path.write_bytes(path.read_bytes()[: 3 * 4096])
    with pytest.raises(FileError) as caught, Store(path) as store:
        store.find()
    assert "damaged" in str(caught.value)


def test_a_database_of_another_program_is_refused_untouched(path):
    path.parent.mkdir()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("CREATE TABLE theirs (x)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(FileError, match="is a database of another program"):
        Store(path)
    assert path.read_bytes() == before


def test_a_newer_store_is_refused(path):
    Store(path).close()
    raw = sqlite3.connect(path)
    raw.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    raw.commit()
    raw.close()
    with pytest.raises(FileError, match="and 1 is known here; update Paceline"):
        Store(path)


def test_an_older_store_is_migrated_step_by_step(path, monkeypatch):
    with Store(path) as store:
        store.add(note(text="kept"))
    more = (*MIGRATIONS, ("ALTER TABLE record ADD COLUMN tag TEXT",), ("UPDATE record SET tag = 'old'",))
    monkeypatch.setattr(database, "MIGRATIONS", more)
    with Store(path) as store:
        assert store.find()[0].data == note(text="kept")
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT tag FROM record").fetchall() == [("old",)]
    assert raw.execute("PRAGMA user_version").fetchone()[0] == 3
    raw.close()


def test_a_migration_that_fails_changes_nothing(path, monkeypatch):
    Store(path).close()
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, ("ALTER TABLE record ADD COLUMN tag TEXT", "NONSENSE")))
    with pytest.raises(FileError, match="cannot be used as a store"):
        Store(path)
    monkeypatch.undo()
    with Store(path) as store:
        store.add(note())
        assert isinstance(store.find()[0], Record)


def test_a_folder_that_cannot_hold_a_store_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path, tmp_path / "file" / "store.sqlite"):
        with pytest.raises(FileError, match="cannot be used as a store"):
            Store(wrong)
