"""Values that no well-behaved client sends, and a writer of JSON that lets them through."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from random import Random
from typing import Any, cast


class Raw(str):
    """Text that is written as it is, whether it is JSON or not."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Twice:
    """In an object: the same key two times."""

    first: Any
    second: Any


def write(value: Any) -> str:
    """Return `value` as text that is nearly JSON."""
    # By type, and the likeliest first: a campaign writes a hundred times more values than messages.
    kind = cast("type[Any]", type(value))
    if kind is str:
        return encode_basestring_ascii(value)
    if kind is dict:
        return "{" + ",".join([_member(key, item) for key, item in cast("dict[str, Any]", value).items()]) + "}"
    if kind is list:
        return "[" + ",".join([write(item) for item in cast("list[Any]", value)]) + "]"
    if kind is Raw:
        return str(value)
    return write(value.second) if kind is Twice else json.dumps(value)


def _member(key: str, value: Any) -> str:
    name = encode_basestring_ascii(key)
    if type(value) is Twice:
        return f"{name}:{write(value.first)},{name}:{write(value.second)}"
    return f"{name}:{write(value)}"


def copied(value: Any) -> Any:
    """Return a value whose objects and arrays may be changed without a change to the given one."""
    if type(value) is dict:
        return {key: copied(item) for key, item in cast("dict[str, Any]", value).items()}
    return [copied(item) for item in cast("list[Any]", value)] if type(value) is list else value


_TEXTS = (
    "",
    " ",
    "\0",
    "a\0b",
    "\r\nMcp-Name: x",
    "\x1b[31m\x07\x7f",
    "\u202eksat\u202c",
    "\ufeff\u200b\u2028\u2029",
    "ﬁ Å Å İ ß",
    "👩‍👩‍👧‍👦" * 20,
    "tasks/get",
    "../../../../etc/passwd",
    "' or 1=1 --",
    "%s%n{0}${x}",
    "=?base64?4pyT?=",
    "=?base64?!!?=",
    "__proto__",
    "null",
    "0",
    "constructor",
)
_EMPTY: tuple[Any, ...] = ([], {}, None, True, False, [[]], [None], {"": None}, {"": {"": {}}})
_NUMBERS = (0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**40, 0.5, -0.0, 1e308, 5e-324)
_NOT_QUITE_JSON = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "1E400",
    "01",
    "+1",
    ".5",
    "0x10",
    "1.0",
    "1e2",
    "-0",
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"a\\u0000b"',
    '{"\\ud83d":1}',
    '"\\x41"',
    '"a\tb"',
    "'a'",
    "{a:1}",
    "[1,]",
    '{"a":1,}',
    "undefined",
    "tru",
    "/* */ 1",
    '{"a":1,"a":2}',
    '"\udcff"',  # half a pair, which is written as bytes that are no UTF-8
    '{"k":"\udc80"}',
)


def hostile(chance: Random) -> Any:
    """Return something where anything else was expected."""
    return chance.choices(_KINDS, _WEIGHTS)[0](chance)


def hostile_text(chance: Random) -> str:
    return chance.choice(_TEXTS) if chance.random() < 0.9 else _long_text(chance)


def _long_text(chance: Random) -> str:
    return chance.choice("x\0é漢'\"\\") * chance.choice((300, 513, 5_000, 20_000))


def _deep(chance: Random) -> Raw:
    depth = chance.choice((60, 200, 300, 600, 800, 900, 960, 1_100, 5_000))
    inner = chance.choice(("", "1", '"\\ud800"', '"x"', "1e999"))
    if chance.random() < 0.5:
        return Raw("[" * depth + inner + "]" * depth)
    return Raw('{"a":' * depth + (inner or "null") + "}" * depth)


def _long_number(chance: Random) -> Raw:
    return Raw(chance.choice("19") * chance.choice((25, 400, 4_299, 4_400)))


def _wide(chance: Random) -> Any:
    count = chance.choice((50, 500, 1_001))
    if chance.random() < 0.5:
        return [hostile_text(chance)[:20]] * count
    return {f"k{number}": number for number in range(count)}


def _empty(chance: Random) -> Any:
    return copied(chance.choice(_EMPTY))


def _number(chance: Random) -> Any:
    return chance.choice(_NUMBERS)


def _raw(chance: Random) -> Raw:
    return Raw(chance.choice(_NOT_QUITE_JSON))


_KINDS: tuple[Callable[[Random], Any], ...] = (_empty, hostile_text, _number, _raw, _long_number, _deep, _wide)
_WEIGHTS = (30, 25, 15, 25, 2, 4, 2)
