"""The store: JSON objects of artefacts in one SQLite file, whatever their kind.

Only the launcher writes; still, several launchers may at once, so every write is one transaction and waits
its turn. The journal is never a WAL: runs often live on network file systems, where the shared memory of a
WAL corrupts the file.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from paceline.errors import FileError

# "pace" in ASCII: tells our files from those of other programs.
APPLICATION_ID = 0x70616365

# From schema version n to n + 1: the statements at place n. Never edit one that was released; append.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE record (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, "
        "version INTEGER NOT NULL, created TEXT NOT NULL, run_id TEXT, fields TEXT NOT NULL)",
        "CREATE INDEX record_by_run ON record (run_id, kind)",
        "CREATE INDEX record_by_kind ON record (kind)",
    ),
)
_COLUMNS = "id, kind, version, created, run_id, fields"


@dataclass(frozen=True, slots=True)
class Record:
    """What the store keeps of one artefact; ``data`` is its whole JSON object."""

    id: int
    kind: str
    version: int
    created: str  # UTC, ISO 8601
    run_id: str | None
    data: dict[str, Any]


class Store:
    """An open store; use it as a context manager, or close it.

    >>> with Store(":memory:") as store:
    ...     number = store.add({"kind": "note", "version": 1, "text": "hello"}, run_id="r1")
    ...     store.get(number).data["text"], store.runs()
    ('hello', ('r1',))
    """

    def __init__(self, path: str | Path, patience_seconds: float = 30.0) -> None:
        self.path = str(path)
        with self._sentences():
            if self.path != ":memory:":
                file = Path(self.path)
                file.parent.mkdir(parents=True, exist_ok=True)
                # SQLite takes less than a page for an empty database and writes over it. (Only the size is
                # looked at: closing the file here would drop this process's other locks on it.)
                if file.is_file() and 0 < file.stat().st_size < 512:
                    raise FileError(self.path, "", "is damaged or not a store; move it away")
            # No isolation level: transactions begin where this file says so, and nowhere else.
            self._connection = sqlite3.connect(self.path, timeout=patience_seconds, isolation_level=None)
        try:
            with self._sentences():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was added is kept."""
        self._connection.close()

    def add(self, data: dict[str, Any], *, run_id: str | None = None) -> int:
        """Keep the JSON object of an artefact and return its number."""
        fields = dict(data)
        kind, version = fields.pop("kind", None), fields.pop("version", None)
        if not isinstance(kind, str) or not kind:
            raise FileError(self.path, "kind", f"is {kind!r}, and only artefacts with a kind can be kept")
        if type(version) is not int or version < 1:
            raise FileError(self.path, f"{kind}.version", f"is {version!r}, must be a whole number from 1")
        try:
            text = json.dumps(fields, allow_nan=False, separators=(",", ":"))
        except (ValueError, TypeError, RecursionError) as error:
            key, what = _unkeepable(fields, kind) or (kind, str(error))
            raise FileError(self.path, key, f"cannot be kept: {what}") from None
        created = datetime.now(UTC).isoformat(timespec="microseconds")
        with self._transaction():
            cursor = self._connection.execute(
                "INSERT INTO record (kind, version, created, run_id, fields) VALUES (?, ?, ?, ?, ?)",
                (kind, version, created, run_id, text),
            )
        assert cursor.lastrowid is not None  # an INSERT always has one
        return cursor.lastrowid

    def get(self, number: int) -> Record:
        """Return the record of a number."""
        with self._sentences():
            row = self._connection.execute(f"SELECT {_COLUMNS} FROM record WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise FileError(self.path, "", f"holds no record {number}")
        return self._record(row)

    def find(self, kind: str | None = None, run_id: str | None = None, newest: int | None = None) -> list[Record]:
        """Return the records of a kind and of a run, newest first, ``newest`` of them at most."""
        if newest is not None and newest < 0:
            raise ValueError(f"newest is {newest}, must not be negative")
        with self._sentences():
            rows = self._connection.execute(
                f"SELECT {_COLUMNS} FROM record "
                "WHERE (?1 IS NULL OR kind = ?1) AND (?2 IS NULL OR run_id = ?2) ORDER BY id DESC LIMIT ?3",
                (kind, run_id, -1 if newest is None else newest),
            ).fetchall()
        return [self._record(row) for row in rows]

    def runs(self) -> tuple[str, ...]:
        """Return the runs that records belong to, newest first."""
        with self._sentences():
            rows = self._connection.execute(
                "SELECT run_id FROM record WHERE run_id IS NOT NULL GROUP BY run_id ORDER BY max(id) DESC"
            ).fetchall()
        return tuple(str(row[0]) for row in rows)

    def _record(self, row: tuple[int, str, int, str, str | None, str]) -> Record:
        number, kind, version, created, run_id, text = row
        try:
            fields = json.loads(text)
        except ValueError:
            raise FileError(self.path, f"record {number}", "is damaged; restore the file from a copy") from None
        return Record(number, kind, version, created, run_id, {"kind": kind, "version": version, **fields})

    def _prepare(self) -> None:
        """Check that the file is ours and bring it to this version's schema."""
        self._connection.execute("BEGIN")  # one view of the file, which another process may be making right now
        try:
            self._refuse_foreign()
        finally:
            self._connection.rollback()
        if self._pragma("journal_mode") == "wal":
            self._connection.execute("PRAGMA journal_mode = DELETE")
        if self._version() == len(MIGRATIONS):
            return
        with self._transaction():
            # Of several processes that open a new file, one gets here first: look again.
            self._refuse_foreign()
            version = self._version()
            if version > len(MIGRATIONS):
                what = f"has schema version {version}, and {len(MIGRATIONS)} is known here; update Paceline"
                raise FileError(self.path, "", what)
            for step in range(version, len(MIGRATIONS)):
                for statement in MIGRATIONS[step]:
                    self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _refuse_foreign(self) -> None:
        if self._pragma("application_id") != APPLICATION_ID:
            tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if tables or self._version():
                raise FileError(self.path, "", "is a database of another program; name another file")

    def _version(self) -> int:
        return int(self._pragma("user_version"))

    def _pragma(self, name: str) -> Any:
        return self._connection.execute(f"PRAGMA {name}").fetchone()[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Hold the write lock from the start: a reader that turns writer half-way could only fail."""
        with self._sentences():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Turn what SQLite and the file system refuse into one sentence."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                what = "is busy with another process; try again when that has finished"
            else:
                what = f"cannot be used as a store ({error})"
            raise FileError(self.path, "", what) from None
        except sqlite3.DatabaseError as error:
            what = f"is damaged or not a store ({error}); move it away or restore it from a copy"
            raise FileError(self.path, "", what) from None
        except OSError as error:
            raise FileError(self.path, "", f"cannot be used as a store ({error.strerror or error})") from None


def _unkeepable(value: object, key: str) -> tuple[str, str] | None:
    """Return (key, sentence) of the first value that JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return key, f"{value} is not a number that JSON can hold"
    if isinstance(value, dict):
        parts = [(f"{key}.{name}", part) for name, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{key}.{number}", part) for number, part in enumerate(value)]
    elif value is None or isinstance(value, str | int | float):
        return None
    else:
        return key, f"a {type(value).__name__} is not a JSON value"
    return next((fault for name, part in parts if (fault := _unkeepable(part, name))), None)
