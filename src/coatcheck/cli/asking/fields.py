"""The fields of a form: what each is called, what may be typed into it, and what that means."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from coatcheck.cli.asking.formats import FORMATS
from coatcheck.cli.schemas import Schema, misfit
from coatcheck.cli.values import NOTHING, from_json

EMPTY = '""'
"""Typed for a text without any letters: Enter alone means something else."""
_YES, _NO = ("y", "yes", "true", "on", "1"), ("n", "no", "false", "off", "0")


class BadInput(Exception):
    """What was typed is not what was asked for; the sentence says why."""


@dataclass(frozen=True, kw_only=True)
class Field(ABC):
    name: str
    title: str = ""
    note: str = ""
    is_required: bool = True
    default: Any = NOTHING

    @property
    @abstractmethod
    def hint(self) -> str:
        """What to type, in a few words."""

    @abstractmethod
    def read(self, text: str) -> Any:
        """Return what was typed as a value.

        Raises:
            BadInput: It is not what was asked for.
        """

    @property
    def titles(self) -> Sequence[str]:
        """What there is to choose from, where there is."""
        return ()

    def show(self, value: Any) -> str:
        """Return a value as one would type it."""
        if value is None:
            return "nothing"
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Text(Field):
    min_length: int = 0
    max_length: int | None = None
    pattern: str | None = None
    form: str | None = None

    @property
    def hint(self) -> str:
        words = [FORMATS[self.form].hint if self.form in FORMATS else "text"]
        if self.min_length > 1 or self.max_length is not None:
            words.append(span(self.min_length if self.min_length > 1 else None, self.max_length, "characters"))
        if self.pattern:
            words.append(f"like {self.pattern}")
        return ", ".join(words)

    def read(self, text: str) -> str:
        text = "" if text == EMPTY else text
        if self.form in FORMATS:
            try:
                text = FORMATS[self.form].read(text.strip())
            except ValueError:
                raise BadInput(f"That is not {FORMATS[self.form].hint}.") from None
        if len(text) < self.min_length or (self.max_length is not None and len(text) > self.max_length):
            allowed = span(self.min_length or None, self.max_length, "characters")
            raise BadInput(f"That has {len(text)} characters; it takes {allowed}.")
        if self.pattern and _mismatches(self.pattern, text):
            raise BadInput(f"That does not look like {self.pattern}.")
        return text


@dataclass(frozen=True, kw_only=True)
class Number(Field):
    is_integer: bool = False
    schema: Schema = field(default_factory=dict[str, Any])
    """The limits, which are judged by JSON Schema itself."""

    @property
    def hint(self) -> str:
        words = "whole number" if self.is_integer else "number"
        low, high = self.schema.get("minimum"), self.schema.get("maximum")
        above, below = self.schema.get("exclusiveMinimum"), self.schema.get("exclusiveMaximum")
        limits = [span(low, high)] if low is not None or high is not None else []
        limits += [f"above {above}"] if above is not None else []
        limits += [f"below {below}"] if below is not None else []
        limits += [f"a multiple of {step}"] if (step := self.schema.get("multipleOf")) else []
        return " ".join([words, ", ".join(limits)]).strip()

    def read(self, text: str) -> int | float:
        value = from_json(text.strip().removeprefix("+"))
        if isinstance(value, float) and self.is_integer and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int if self.is_integer else (int, float)):
            raise BadInput(f"That is not a {'whole ' if self.is_integer else ''}number.")
        if misfit(value, self.schema):
            raise BadInput(f"{text.strip()} is not a {self.hint}.")
        return value


@dataclass(frozen=True, kw_only=True)
class YesNo(Field):
    @property
    def hint(self) -> str:
        return "y/n"

    def read(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in (*_YES, *_NO):
            raise BadInput("Type y for yes or n for no.")
        return word in _YES

    def show(self, value: Any) -> str:
        return super().show(value) if value is None else "yes" if value else "no"


@dataclass(frozen=True, kw_only=True)
class JSON(Field):
    """Whatever has no field of its own."""

    schema: Schema
    words: str = "any"

    @property
    def hint(self) -> str:
        return f"JSON: {self.words}"

    def read(self, text: str) -> Any:
        value = from_json(text)
        if value is NOTHING:
            raise BadInput("That is no JSON.")
        if reason := misfit(value, self.schema):
            raise BadInput(f"That does not fit: {reason}.")
        return value


def span(low: Any, high: Any, what: str = "") -> str:
    """Say from where to where; None: no limit on that side."""
    if low is not None and high is not None:
        words = f"{low}" if low == high else f"{low} to {high}"
    else:
        words = f"at least {low}" if high is None else f"at most {high}"
    return f"{words} {what}".strip()


def _mismatches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is None
    except re.error:  # of another language's kind; the server will judge
        return False
