"""The fields of a form that are choices: one of a few, or several of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from coatcheck.cli.asking.fields import EMPTY, BadInput, Field, span


@dataclass(frozen=True)
class Option:
    value: Any
    title: str


@dataclass(frozen=True, kw_only=True)
class Choice(Field):
    choices: tuple[Option, ...]

    @property
    def titles(self) -> Sequence[str]:
        return [option.title for option in self.choices]

    @property
    def hint(self) -> str:
        return f"1-{len(self.choices)}"

    def read(self, text: str) -> Any:
        return pick(self.choices, text)

    def show(self, value: Any) -> str:
        return next((option.title for option in self.choices if option.value == value), super().show(value))


@dataclass(frozen=True, kw_only=True)
class Choices(Field):
    choices: tuple[Option, ...]
    at_least: int = 0
    at_most: int | None = None

    @property
    def titles(self) -> Sequence[str]:
        return [option.title for option in self.choices]

    @property
    def hint(self) -> str:
        words = f"several of 1-{len(self.choices)}, with commas"
        if self.at_least or self.at_most is not None:
            words += f", {span(self.at_least or None, self.at_most, 'of them')}"
        return words

    def read(self, text: str) -> list[Any]:
        texts = [] if text == EMPTY else [part for part in text.split(",") if part.strip()]
        picked: list[Any] = []
        for part in texts:
            if (value := pick(self.choices, part)) not in picked:
                picked.append(value)
        if len(picked) < self.at_least or (self.at_most is not None and len(picked) > self.at_most):
            raise BadInput(f"That is {len(picked)}; it takes {span(self.at_least or None, self.at_most, 'of them')}.")
        return picked

    def show(self, value: Any) -> str:
        if not isinstance(value, list):
            return super().show(value)
        titles = {json.dumps(option.value): option.title for option in self.choices}
        return ", ".join(titles.get(json.dumps(each), str(each)) for each in cast("list[Any]", value)) or "none of them"


def pick(choices: Sequence[Option], text: str) -> Any:
    """Return the choice that is meant by its value, its title or its number, in that order.

    Raises:
        BadInput: None is.
    """
    word = text.strip()
    for option in choices:
        if word == (option.value if isinstance(option.value, str) else json.dumps(option.value)):
            return option.value
    for option in choices:
        if word.lower() == option.title.lower():
            return option.value
    if word.isdecimal() and 1 <= int(word) <= len(choices):
        return choices[int(word) - 1].value
    raise BadInput(f"{word!r} is none of them; type a number from 1 to {len(choices)}.")
