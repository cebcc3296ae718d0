"""Reading JSON Schemas as far as the command line needs it: what a value is, in words, and whether one fits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from coatcheck.cli.later import later
from coatcheck.errors import InvalidAnswer
from coatcheck.payload import encode

if TYPE_CHECKING:
    from coatcheck import answers
else:
    answers = later("coatcheck.answers")

Schema = Mapping[str, Any]


def resolved(schema: Any, root: Schema) -> Schema:
    """Return the schema itself: references are followed, and `allOf` of one is that one."""
    for _ in range(32):
        if not isinstance(schema, Mapping):
            return {}
        match cast("Schema", schema):
            case {"$ref": str(reference), **beside}:
                schema = {**_at(root, reference), **beside}
            case {"allOf": [only], **beside}:
                schema = {**resolved(only, root), **beside}
            case plain:
                return plain
    return {}


def branches(schema: Any, root: Schema) -> list[Schema]:
    """Return the alternatives of a schema, each with one type or none: those of `anyOf`, `oneOf` and of many types."""
    schema = resolved(schema, root)
    for word in ("anyOf", "oneOf"):
        if alternatives := items(schema, word):
            return [branch for each in alternatives for branch in branches(each, root)]
    return [{**schema, "type": kind} for kind in items(schema, "type")] or [schema]


def type_of(schema: Schema) -> str:
    """Return the type of one branch, guessed from its other words where it names none; "" if anything goes."""
    if isinstance(kind := schema.get("type"), str):
        return kind
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else ""


def properties(schema: Any, root: Schema) -> Schema:
    """Return what an object may have, by name, whichever alternative has it."""
    found: dict[str, Any] = {}
    for branch in branches(schema, root):
        if isinstance(there := branch.get("properties"), Mapping):
            found |= cast("Schema", there)
    return found


def items(schema: Schema, word: str) -> list[Any]:
    """Return the list under a word, where there is one."""
    found = schema.get(word)
    return cast("list[Any]", found) if isinstance(found, list) else []


def number(schema: Schema, word: str) -> int | None:
    """Return the whole number under a word, where there is one."""
    found = schema.get(word)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def text(schema: Schema, word: str) -> str:
    """Return the text under a word, or none."""
    found = schema.get(word)
    return found if isinstance(found, str) else ""


def in_words(schema: Any, root: Schema) -> str:
    """Say what a value must be: `integer`, `string or null`, `one of "a", "b"`."""
    words: list[str] = []
    for branch in branches(schema, root):
        if choices := items(branch, "enum"):
            words.append(" | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices))
        elif "const" in branch:
            words.append(json.dumps(branch["const"], ensure_ascii=False))
        elif type_of(branch) == "array" and "items" in branch:
            words.append(f"array of {in_words(branch['items'], root)}")
        else:
            words.append(type_of(branch) or "any")
    return " or ".join(dict.fromkeys(words))


def misfit(value: Any, schema: Schema) -> str | None:
    """Say why a value does not fit a schema; None if it does, or if the schema cannot be read: then others judge."""
    try:
        answers.check("", answers.request_of("", {}, schema), encode(value))
    except InvalidAnswer as error:
        return error.reason
    except Exception:  # patterns of other languages, references to elsewhere
        return None
    return None


def _at(root: Schema, reference: str) -> Schema:
    here: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        here = cast("Schema", here).get(name) if isinstance(here, Mapping) else None
    return cast("Schema", here) if isinstance(here, Mapping) else {}
