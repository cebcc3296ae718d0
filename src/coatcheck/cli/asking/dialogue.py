"""A form, filled in by a person line by line. What is typed wrong is explained and asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coatcheck.cli.asking.fields import BadInput, Field
from coatcheck.cli.asking.form import fields_of
from coatcheck.cli.asking.person import SKIP, Declined, Dismissed, Person, type_line, type_yes_or_no
from coatcheck.cli.schemas import Schema, misfit
from coatcheck.cli.values import NOTHING

_WAYS_OUT = "/decline says no, /cancel says nothing at all."


async def answer_form(person: Person, message: str, schema: Schema) -> dict[str, Any]:
    """Ask for what the schema describes; return the answer: `accept` with content, `decline` or `cancel`."""
    fields = fields_of(schema)
    person.show(message, "bold")
    person.show(_help(fields), "dim")
    try:
        if not fields:
            return {"action": "accept", "content": {}} if await _agrees(person) else {"action": "decline"}
        return {"action": "accept", "content": await _fill_in(person, fields, schema)}
    except Declined:
        return {"action": "decline"}
    except Dismissed:
        return {"action": "cancel"}


async def _agrees(person: Person) -> bool:
    return await type_yes_or_no(person, "Agree? (y/n): ")


async def _fill_in(person: Person, fields: Sequence[Field], schema: Schema) -> dict[str, Any]:
    while True:
        typed = {field.name: await _fill(person, field) for field in fields}
        content = {name: value for name, value in typed.items() if value is not NOTHING}
        if reason := misfit(content, schema):
            person.show(f"  That does not fit: {reason}. Once more:", "yellow")
        elif len(fields) == 1 or await _is_right(person, fields, content):
            return content
        fields = [replace(field, default=content.get(field.name, field.default)) for field in fields]


async def _fill(person: Person, field: Field) -> Any:
    """Ask for one field until it is right; return `NOTHING` if it was left out."""
    if field.note:
        person.show(f"  {field.note}", "dim")
    for number, title in enumerate(field.titles, 1):
        person.show(f"  {number:>3}  {title}")
    while True:
        line = await type_line(person, _prompt(field))
        if not line.strip() and field.default is not NOTHING:
            return field.default
        if line.strip() in ("", SKIP) and not field.is_required:
            return NOTHING
        if line.strip() in ("", SKIP):
            person.show('  It is needed. For a text without letters, type "".', "yellow")
            continue
        try:
            return field.read(line)
        except BadInput as error:
            person.show(f"  {error}", "yellow")


async def _is_right(person: Person, fields: Sequence[Field], content: dict[str, Any]) -> bool:
    """Show all of it, and let it be changed before it is sent."""
    width = max(len(field.title) for field in fields)
    for field in fields:
        value = field.show(content[field.name]) if field.name in content else "(left out)"
        person.show(f"  {field.title:{width}}  {value}", "cyan")
    return await type_yes_or_no(person, "Send it? (Y/n, n asks again): ", default=True)


def _prompt(field: Field) -> str:
    hint = field.hint if field.is_required else f"{field.hint}, optional"
    default = f" [{field.show(field.default) or 'empty'}]" if field.default is not NOTHING else ""
    return f"{field.title} ({hint}){default}: "


def _help(fields: Sequence[Field]) -> str:
    words = [_WAYS_OUT]
    if any(field.default is not NOTHING for field in fields):
        words.insert(0, "Enter takes what is in [brackets].")
    if any(not field.is_required for field in fields):
        words.insert(-1, "/skip leaves out what is optional.")
    return " ".join(words)
