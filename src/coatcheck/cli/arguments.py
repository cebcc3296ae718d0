"""`key=value` in, arguments out, typed by the tool's own schema. What cannot be right is refused before any call."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from coatcheck.cli.schemas import Schema, branches, in_words, items, misfit, properties
from coatcheck.cli.values import NOTHING, convert, from_json
from coatcheck.errors import InvalidArgument


def read_arguments(pairs: Sequence[str], file: str | None, schema: Schema, whose: str) -> dict[str, Any]:
    """Return the arguments that `pairs` and the JSON in `file` (`-`: stdin) stand for; pairs win.

    Raises:
        InvalidArgument: Something is misspelt, unknown, missing or not what the schema wants; it says what would be.
    """
    arguments = _read_file(file) if file else {}
    for name in arguments:
        _schema_of(name, schema, schema, whose)
    written: set[str] = set()
    for pair in pairs:
        _put(arguments, pair, schema, whose, written)
    missing = [name for name in items(schema, "required") if name not in arguments]
    if missing:
        raise InvalidArgument(f"{whose} needs {_listed(missing, schema, schema)}; write {missing[0]}=….")
    if reason := misfit(arguments, schema):
        raise InvalidArgument(f"{whose} does not take that: {reason}.")
    return arguments


def describe(schema: Schema) -> str:
    """Say what there is to pass: `pages=integer [title=string]`."""
    required = items(schema, "required")
    said = ((f"{name}={in_words(kind, schema)}", name in required) for name, kind in properties(schema, schema).items())
    return " ".join(text if is_required else f"[{text}]" for text, is_required in said)


def _put(arguments: dict[str, Any], pair: str, schema: Schema, whose: str, written: set[str]) -> None:
    """Put one value where its name leads. A second one for the same array is added to it."""
    name, text, is_json = _split(pair)
    *path, last = [name] if name in properties(schema, schema) else name.split(".")
    here, kind = arguments, cast("Any", schema)
    for part in path:
        kind, whose = _schema_of(part, kind, schema, whose), f"{part} of {whose}"
        inner: Any = here.setdefault(part, {})
        if not isinstance(inner, dict):
            raise InvalidArgument(f"{part} is already {json.dumps(inner)}, so there is no {name}.")
        here = cast("dict[str, Any]", inner)
    value = _value(name, text, is_json, _schema_of(last, kind, schema, whose), schema)
    if name in written:
        before = here[last]
        if not isinstance(value, list) or not isinstance(before, list):
            raise InvalidArgument(f"{name} is given twice.")
        value = [*cast("list[Any]", before), *cast("list[Any]", value)]
    written.add(name)
    here[last] = value


def _split(pair: str) -> tuple[str, str, bool]:
    """Return the name, the text after `=`, and whether that was `:=`."""
    name, equals, text = pair.partition("=")
    is_json, name = name.endswith(":"), name.removesuffix(":")
    if not equals or not all(name.split(".")):
        hint = f"for a file, --input {pair}" if pair.endswith(".json") else "key:=JSON, or key.sub=value"
        raise InvalidArgument(f"{pair!r} is no argument; write key=value, {hint}.")
    return name, text, is_json


def _value(name: str, text: str, is_json: bool, kind: Any, schema: Schema) -> Any:
    if not is_json:
        try:
            return convert(text, kind, schema)
        except ValueError as error:
            raise InvalidArgument(f"{name}: {error}.") from None
    value = from_json(text)
    if value is NOTHING:
        raise InvalidArgument(f"{name}: {text!r} is no JSON; for text write {name}={text}.")
    return value


def _schema_of(name: str, kind: Any, root: Schema, whose: str) -> Any:
    """Return the schema of one argument, or of one property of it.

    Raises:
        InvalidArgument: There is none of that name, and no other names are allowed.
    """
    known = properties(kind, root)
    if name in known:
        return known[name]
    for branch in branches(kind, root):
        if more := branch.get("additionalProperties"):
            return more
        if "patternProperties" in branch or not ("properties" in branch or kind is root):
            return {}
    close = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]}?" if close else "."
    there_is = f" It takes {_listed(known, kind, root)}." if known else " It takes none."
    raise InvalidArgument(f"{whose} has no argument {name!r}{hint}{there_is}")


def _listed(names: Iterable[str], kind: Any, root: Schema) -> str:
    known = properties(kind, root)
    return ", ".join(f"{name} ({in_words(known.get(name, {}), root)})" for name in names)


def _read_file(file: str) -> dict[str, Any]:
    name = "stdin" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        value = json.loads(text)
    except OSError as error:
        raise InvalidArgument(f"{name} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise InvalidArgument(f"{name} is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InvalidArgument(f"{name} must hold one JSON object with the arguments.")
    return cast("dict[str, Any]", value)
