"""Rules of who may use a tool, a resource or a prompt: `role("admin") | when(lambda who, given: …)`."""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coatcheck.errors import InvalidArgument
from coatcheck.server.access.principal import Principal

logger = logging.getLogger("coatcheck")

Arguments = Mapping[str, Any]
Test = Callable[[Principal], bool | Awaitable[bool]]
ArgumentTest = Callable[[Principal, Arguments], bool | Awaitable[bool]]


class Rule(ABC):
    """Says yes, or does not. There is no rule that says no: what no rule allows is refused."""

    @abstractmethod
    async def allows(self, who: Principal, arguments: Arguments | None) -> bool:
        """Whether `who` may use it with these arguments; without any, whether there are arguments that would do."""

    @property
    def depends_on_arguments(self) -> bool:
        return False

    def __or__(self, other: Rule) -> Rule:
        return _Either(self, other)

    def __and__(self, other: Rule) -> Rule:
        return _Both(self, other)


Authority = Rule | ArgumentTest
"""How a rule may be written: in full, or as a function of the caller and the arguments."""


def rule_of(authority: Authority) -> Rule:
    if isinstance(authority, Rule):
        return authority
    if not callable(authority):
        raise InvalidArgument(f'authorize takes a rule, as role("admin"), or a function, but it is {authority!r}.')
    return when(authority)


def role(*names: str) -> Rule:
    """Allow whoever has one of these roles, by its token."""
    _check_names("role", names)
    return _Who(lambda who: not who.roles.isdisjoint(names))


def scope(*names: str) -> Rule:
    """Allow whoever was granted all of these scopes."""
    _check_names("scope", names)
    return _Who(lambda who: who.scopes.issuperset(names))


def signed_in() -> Rule:
    """Allow whoever is known by name."""
    return _Who(lambda who: not who.is_anonymous)


def who(test: Test) -> Rule:
    """Allow the callers of whom `test(principal)` is true."""
    return _Who(test)


def when(test: ArgumentTest) -> Rule:
    """Allow the calls of which `test(principal, arguments)` is true. The arguments are as the tool would get them."""
    return _When(test)


@dataclass(frozen=True, slots=True)
class _Who(Rule):
    test: Test

    async def allows(self, who: Principal, arguments: Arguments | None) -> bool:
        return await _holds(self.test, who)


@dataclass(frozen=True, slots=True)
class _When(Rule):
    test: ArgumentTest

    async def allows(self, who: Principal, arguments: Arguments | None) -> bool:
        return arguments is None or await _holds(self.test, who, arguments)

    @property
    def depends_on_arguments(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Either(Rule):
    one: Rule
    other: Rule

    async def allows(self, who: Principal, arguments: Arguments | None) -> bool:
        return await self.one.allows(who, arguments) or await self.other.allows(who, arguments)

    @property
    def depends_on_arguments(self) -> bool:
        return self.one.depends_on_arguments or self.other.depends_on_arguments


@dataclass(frozen=True, slots=True)
class _Both(Rule):
    one: Rule
    other: Rule

    async def allows(self, who: Principal, arguments: Arguments | None) -> bool:
        return await self.one.allows(who, arguments) and await self.other.allows(who, arguments)

    @property
    def depends_on_arguments(self) -> bool:
        return self.one.depends_on_arguments or self.other.depends_on_arguments


async def _holds(test: Callable[..., Any], *given: Any) -> bool:
    """Whether a test says yes, and nothing but yes: one that fails has allowed nothing."""
    try:
        said = test(*given)
        return (await said if inspect.isawaitable(said) else said) is True
    except Exception as error:  # of which no word is logged: it may quote what it was given
        name = getattr(test, "__qualname__", type(test).__name__)
        logger.error("The rule %s failed with %s, so it refuses", name, type(error).__name__)
        return False


def _check_names(kind: str, names: tuple[str, ...]) -> None:
    if not names or not all(isinstance(name, str) and name for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f'{kind} takes the names of {kind}s, as {kind}("reports"); it was given {names!r}.')
