"""Text in, a JSON value out: what a text stands for is decided by the schema of its place."""

from __future__ import annotations

import json
from typing import Any

from coatcheck.cli.schemas import Schema, branches, in_words, items, type_of

NOTHING = object()
"""What a text stands for that stands for nothing."""
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_KINDS: dict[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "array": (list,), "object": (dict,)}
# Text comes last: everything else could be taken for it too.
_ORDER = ("null", "boolean", "integer", "number", "array", "object", "", "string")


def convert(text: str, schema: Any, root: Schema) -> Any:
    """Return what a text stands for; where a schema has alternatives, the narrowest that it fits.

    Raises:
        ValueError: It is none of the things it may be.
    """
    found = sorted(branches(schema, root), key=_rank)
    for branch in found:
        value = _as(text, branch, root)
        if value is not NOTHING:
            return value
    raise ValueError(f"{text!r} is not {_named(found, in_words(schema, root))}")


def from_json(text: str) -> Any:
    """Return what a text is in JSON, or `NOTHING`."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError:
        return NOTHING


def _as(text: str, branch: Schema, root: Schema) -> Any:
    if choices := items(branch, "enum"):
        return {_plain(choice): choice for choice in choices}.get(text, NOTHING)
    if "const" in branch:
        return branch["const"] if text == _plain(branch["const"]) else NOTHING
    match type_of(branch):
        case "string":
            return text
        case "boolean":
            word = text.lower()
            return word in _TRUE if word in (*_TRUE, *_FALSE) else NOTHING
        case "null":
            return None if text == "null" else NOTHING
        case "":
            value = from_json(text)
            return text if value is NOTHING else value
        case kind:
            value = from_json(text)
            if isinstance(value, _KINDS.get(kind, ())) and not isinstance(value, bool):
                return value
            return _list_of_one(text, branch, root) if kind == "array" else NOTHING


def _list_of_one(text: str, branch: Schema, root: Schema) -> Any:
    try:
        return [convert(text, branch["items"], root)]
    except (KeyError, ValueError):
        return NOTHING


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _rank(branch: Schema) -> int:
    kind = type_of(branch)
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _named(found: list[Schema], words: str) -> str:
    if len(found) > 1 or words.startswith(('"', "any")):
        return f"one of {words}" if "|" in words else words
    return f"{'an' if words[0] in 'aeio' else 'a'} {words}"
