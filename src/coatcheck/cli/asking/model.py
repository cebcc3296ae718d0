"""A question that a server puts to a model, answered by a person in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from coatcheck.cli.asking.person import Declined, Dismissed, Person, type_line

MODEL = "a person"


async def answer_for_model(person: Person, params: Mapping[str, Any]) -> str | None:
    """Show what a model would be told, and return what the person says in its place; None if they decline."""
    person.show("A model is asked, and you may answer for it:", "bold")
    if system := params.get("systemPrompt"):
        person.show(f"  system: {system}", "dim")
    for message in cast("Sequence[Mapping[str, Any]]", params.get("messages", ())):
        person.show(f"  {message.get('role', 'user')}: {_words(message.get('content'))}")
    person.show("Type the answer and end it with an empty line. /decline or /cancel refuses.", "dim")
    lines: list[str] = []
    try:
        while True:
            line = await type_line(person, "> ")
            if line.strip():
                lines.append(line)
            elif lines:
                return "\n".join(lines)
            else:
                person.show("  Type at least one line, or /decline.", "yellow")
    except (Declined, Dismissed):
        return None


def _words(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(map(_words, cast("list[Any]", content)))
    match content:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": str(kind)}:
            return f"[{kind}]"
        case _:
            return "[something]"
