"""What the tests of the SQLite store see of its files, without its help."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

_WAL_HEAD, _FRAME_HEAD = 32, 24


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def log(path: Path) -> bytes:
    """Return what is in the log, if there is one."""
    return wal(path).read_bytes() if wal(path).exists() else b""


def contents(path: Path) -> tuple[bytes, bytes]:
    """Return what is in the file, and in its log. Not while a store is open here: it would lose its locks."""
    return path.read_bytes(), log(path)


def open_files(path: Path) -> list[str]:
    """Return what this process has open of the file, its log and so on."""
    opened: list[str] = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            opened.append(os.readlink(entry))
    return sorted(name for name in opened if name.startswith(str(path)))


def sql(path: Path, statement: str, *values: object) -> Sequence[tuple[Any, ...]]:
    """Run a statement as any other program could."""
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(statement, values).fetchall()


def commits(path: Path) -> int:
    """Count the transactions in the log: the frames that end one say how large the file is after it."""
    raw = log(path)
    frame, salt = _FRAME_HEAD + int.from_bytes(raw[8:12], "big"), raw[16:24]
    heads = [raw[at : at + _FRAME_HEAD] for at in range(_WAL_HEAD, len(raw) - frame + 1, frame)]
    return sum(head[8:16] == salt and head[4:8] != bytes(4) for head in heads)
