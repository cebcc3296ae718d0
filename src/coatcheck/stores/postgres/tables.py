"""The tables, and the functions that write them: one call, one transaction, for many tasks. `@.` is the schema.

Functions and types are numbered: while programs of two versions use one schema, each calls its own.
"""

from __future__ import annotations

from importlib import resources

_FOLDER = resources.files(__package__ or "") / "sql"


def _scripts(*names: str) -> tuple[str, ...]:
    return tuple((_FOLDER / f"{name}.sql").read_text("utf-8") for name in names)


MIGRATIONS = (
    (),  # had tables of another layout, in no release: see `schema.py`
    _scripts(
        "tables",
        "unfinished",
        "follow",
        "insert_all",
        "insert_each",
        "replace_all",
        "replace_each",
        "delete_each",
        "ring",
        "offer",
    ),
)
"""Step n takes a schema from n to n + 1. Never edited once released; what older programs call stays."""
