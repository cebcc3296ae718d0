"""A question's JSON Schema in, the fields of a form out."""

from __future__ import annotations

from typing import Any, cast

from coatcheck.cli.asking.choices import Choice, Choices, Option
from coatcheck.cli.asking.fields import JSON, Field, Number, Text, YesNo
from coatcheck.cli.schemas import Schema, branches, in_words, items, number, properties, resolved, text, type_of
from coatcheck.cli.values import NOTHING


def fields_of(schema: Schema) -> list[Field]:
    """Return what there is to fill in, in the order of the schema."""
    required = items(schema, "required")
    return [_field(name, kind, name in required, schema) for name, kind in properties(schema, schema).items()]


def _field(name: str, given: Any, is_required: bool, root: Schema) -> Field:
    schema = resolved(given, root)
    shared: dict[str, Any] = {
        "name": name,
        "title": text(schema, "title") or name,
        "note": text(schema, "description"),
        "is_required": is_required,
        "default": schema.get("default", NOTHING),
    }
    if options := _options(schema):
        return Choice(choices=options, **shared)
    kind, is_nullable = _without_null(schema, root)
    if is_nullable and shared["default"] is NOTHING:
        shared["default"] = None
    if options := _options(kind):
        return Choice(choices=options, **shared)
    match type_of(kind):
        case "string":
            return _text_field(kind, shared)
        case "number" | "integer" as word:
            return Number(is_integer=word == "integer", schema=kind, **shared)
        case "boolean":
            return YesNo(**shared)
        case "array" if options := _options(resolved(kind.get("items"), root)):
            at_least, at_most = number(kind, "minItems") or 0, number(kind, "maxItems")
            return Choices(choices=options, at_least=at_least, at_most=at_most, **shared)
        case _:
            definitions = {word: root[word] for word in ("$defs", "definitions") if word in root}
            return JSON(schema={**definitions, **schema}, words=in_words(schema, root), **shared)


def _text_field(schema: Schema, shared: dict[str, Any]) -> Text:
    return Text(
        min_length=number(schema, "minLength") or 0,
        max_length=number(schema, "maxLength"),
        pattern=text(schema, "pattern") or None,
        form=text(schema, "format") or None,
        **shared,
    )


def _without_null(schema: Schema, root: Schema) -> tuple[Schema, bool]:
    """Return what a value may be if it is not null, and whether it may be null; {} if it may be several things."""
    found = branches(schema, root)
    kinds = [branch for branch in found if type_of(branch) != "null"]
    return (kinds[0] if len(kinds) == 1 else {}), len(kinds) < len(found)


def _options(schema: Schema) -> tuple[Option, ...]:
    """Return the choices of a schema, by any of the ways to write them; none if it is not a choice."""
    if values := items(schema, "enum"):
        names = items(schema, "enumNames")
        return _titled(values, names if len(names) == len(values) else values)
    each = [cast("Schema", one) for word in ("oneOf", "anyOf") for one in items(schema, word) if isinstance(one, dict)]
    if each and all("const" in one for one in each):
        return _titled([one["const"] for one in each], [one.get("title", one["const"]) for one in each])
    return ()


def _titled(values: list[Any], titles: list[Any]) -> tuple[Option, ...]:
    return tuple(Option(value, str(title)) for value, title in zip(values, titles, strict=True))
