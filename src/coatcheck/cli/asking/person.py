"""Whoever is asked, as dialogues know them: one who is shown lines, and types lines."""

from __future__ import annotations

from typing import Protocol


class Declined(Exception):
    """The person says no."""


class Dismissed(Exception):
    """The person does not say."""


class Person(Protocol):
    def show(self, text: str, style: str = "") -> None:
        """Show a line, or several."""

    async def type(self, prompt: str) -> str:
        """Return the line that is typed.

        Raises:
            EOFError: There will be none.
        """
        ...


DECLINE, CANCEL, SKIP = "/decline", "/cancel", "/skip"


async def type_line(person: Person, prompt: str) -> str:
    """Return the line that is typed; a command is obeyed instead, unless it has a second slash.

    Raises:
        Declined, Dismissed: That was typed instead.
    """
    try:
        line = await person.type(prompt)
    except EOFError:
        raise Dismissed from None
    match line.strip().lower():
        case "/decline":
            raise Declined
        case "/cancel":
            raise Dismissed
        case _:
            return line.removeprefix("/") if line.startswith("//") else line


async def type_yes_or_no(person: Person, prompt: str, default: bool | None = None) -> bool:
    """Return whether a question is answered with yes; Enter means the default, if there is one."""
    while True:
        word = (await type_line(person, prompt)).strip().lower()
        if not word and default is not None:
            return default
        if word in ("y", "yes", "n", "no"):
            return word.startswith("y")
        person.show("  Type y for yes or n for no.", "yellow")
