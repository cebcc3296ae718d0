"""What an `mcp.json` says of who may use a server: `"coatcheck": {"roles": ["ops"], "rate": "10/minute"}`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import Any, cast

from coatcheck.errors import InvalidArgument
from coatcheck.server.access.rates import Rate
from coatcheck.server.access.rules import Rule, role, scope

SECTION = "coatcheck"
_WORDS = ("roles", "scopes", "rate")
_RATE = re.compile(r"(\d{1,9})/(second|minute|hour|day)")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


@dataclass(frozen=True, slots=True)
class Term:
    """What holds for a server, or for those of its tools whose names fit a pattern."""

    pattern: str | None = None
    rule: Rule | None = None
    rates: Sequence[Rate] = ()

    def fits(self, tool: str | None) -> bool:
        """Whether it is about a tool; None: about whatever else the server has.

        However the name is spelt: a server may not look so closely, and a term that fits can only forbid.
        """
        if self.pattern is None:
            return True
        return tool is not None and _compiled(self.pattern).fullmatch(tool) is not None


@dataclass(frozen=True, slots=True)
class Terms:
    """All that fit have to allow it."""

    all: Sequence[Term] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.all)

    @property
    def need_names(self) -> bool:
        """Whether they can only be met by callers who are known by name."""
        return any(term.rule for term in self.all)

    def of(self, tool: str | None) -> Iterator[Term]:
        return (term for term in self.all if term.fits(tool))


def terms_of(said: Any) -> Terms:
    """Return what a `coatcheck` object says.

    Raises:
        InvalidArgument: It cannot be understood, and so nothing would be kept from anyone.
    """
    if said is None:
        return Terms()
    found = _object(said, f"{SECTION!r}", (*_WORDS, "tools"))
    tools = found.get("tools")
    if tools is not None and not isinstance(tools, dict):
        raise InvalidArgument('\'tools\' must be an object, as {"delete_*": {"roles": ["admin"]}}.')
    patterns = cast("dict[str, Any]", tools or {})
    own = _term(None, {word: value for word, value in found.items() if word != "tools"})
    each = [_term(pattern, _object(inner, f"{pattern!r} under 'tools'", _WORDS)) for pattern, inner in patterns.items()]
    return Terms([term for term in (own, *each) if term.rule or term.rates])


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern), re.IGNORECASE)


def _object(said: Any, what: str, words: Iterable[str]) -> Mapping[str, Any]:
    if not isinstance(said, dict):
        raise InvalidArgument(f"{what} must be an object with {', '.join(words)}.")
    found = cast("dict[str, Any]", said)
    if unknown := next((word for word in found if word not in words), None):
        raise InvalidArgument(f"{what} knows no {unknown!r}; it has {', '.join(words)}.")
    return found


def _term(pattern: str | None, said: Mapping[str, Any]) -> Term:
    roles, scopes = _names(said, "roles"), _names(said, "scopes")
    match roles, scopes:
        case None, None:
            rule = None
        case _, None:
            rule = role(*roles or ())
        case None, _:
            rule = scope(*scopes)
        case _:
            rule = role(*roles) & scope(*scopes)
    return Term(pattern, rule, _rates(said.get("rate")))


def _names(said: Mapping[str, Any], word: str) -> Sequence[str] | None:
    names: Any = said.get(word)
    if names is None:
        return None
    listed = cast("list[Any]", names) if isinstance(names, list) else []
    if not listed or not all(isinstance(name, str) and name for name in listed):
        raise InvalidArgument(f'{word!r} must be a list of names, as ["ops"].')
    return listed


def _rates(said: Any) -> Sequence[Rate]:
    if said is None:
        return ()
    found = _RATE.fullmatch(said) if isinstance(said, str) else None
    if found is None or int(found[1]) == 0:
        raise InvalidArgument(
            "'rate' must be a number of calls in a time, as \"10/minute\", or per second, hour or day."
        )
    return (Rate(int(found[1]), per=_SECONDS[found[2]]),)
