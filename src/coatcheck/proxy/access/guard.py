"""Asked by both faces of the proxy before a server hears anything: may this caller, and again so soon?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from typing import Any

from coatcheck.proxy.access.terms import Term, Terms
from coatcheck.proxy.naming import Naming
from coatcheck.proxy.servers import Servers
from coatcheck.server.access.authorities import Kind
from coatcheck.server.access.gate import Gate
from coatcheck.server.access.rates import Limited
from coatcheck.server.access.rules import Rule, who
from coatcheck.server.hook import RequestContext
from coatcheck.server.identity import Identity

_CHANGING = ("add_server", "remove_server")
"""The meta tools that change what others use."""


class Guard:
    """What the file says, for the whole proxy and for each server, beside the rules and rates of the gate.

    All of them have to allow it.
    """

    def __init__(self, gate: Gate, servers: Servers, naming: Naming, whole: Terms) -> None:
        self._gate, self.servers, self._naming, self._whole = gate, servers, naming, whole

    @property
    def hides(self) -> bool:
        """Whether there is anything that not all may see."""
        terms = (self._whole, *(self.servers.get(name).terms for name in self.servers))
        return bool(self._gate.authorities) or any(each.need_names for each in terms)

    def refusing(self, ctx: RequestContext) -> AbstractContextManager[None]:
        """Write down what is refused meanwhile, and turn it into the error the caller gets."""
        return self._gate.refusing(ctx)

    # Calls

    def is_free(self, server: str, tool: str) -> bool:
        """Whether all may call a tool, as often as they like."""
        return self._gate.is_open and not any(self._terms(server, tool))

    async def admit_call(
        self, ctx: RequestContext, server: str, tool: str, arguments: Mapping[str, Any], identity: Identity
    ) -> None:
        """Let a call of a server's tool pass, and count it.

        Raises:
            MCPError: The caller may not make this call, or not so soon.
        """
        if self.is_free(server, tool):
            return
        name = self._naming.name(server, tool)
        with self._gate.refusing(ctx, tool=name):
            if rule := self._rule("tool", server, name, tool):
                await self._gate.authorities.check(rule, "tool", name, lambda: arguments)
            self._gate.rates.take(self._limits(server, name, tool), identity.owner_of(ctx))

    async def shows_tool(self, server: str, tool: str) -> bool:
        """Whether the caller is to know of a tool."""
        return await self._allows(self._rule("tool", server, self._naming.name(server, tool), tool))

    # Whatever else servers have

    async def admit(self, server: str, kind: Kind = "server", name: str | None = None) -> None:
        """Let a request for something else of a server's pass. `name`: what it is of, as callers know it.

        Raises:
            Forbidden: The caller may not use this server.
        """
        if rule := self._rule(kind, server, name or server):
            await self._gate.authorities.check(rule, kind, name or server, lambda: None)

    async def shows(self, server: str) -> bool:
        """Whether the caller may use anything of a server."""
        return await self._allows(self._rule("server", server, server))

    async def _allows(self, rule: Rule | None) -> bool:
        return rule is None or await rule.allows(self._gate.authorities.caller(), None)

    # The proxy's own tools

    def cover(self, names: Collection[str], *, has_many_callers: bool) -> None:
        """Have the gate hold the proxy's own tools to what the file says of them.

        What changes what others use is for nobody on a proxy of `has_many_callers`, unless the file says for whom.
        """
        for name in names:
            terms = list(self._whole.of(name))
            rules = [term.rule for term in terms if term.rule]
            if has_many_callers and name in _CHANGING and not any(term.rule for term in terms if term.pattern):
                rules.append(who(lambda _: False))
            if rules:
                self._gate.authorities.set("tool", name, _all_of(rules))
            if rates := [rate for term in terms if term.pattern for rate in term.rates]:
                self._gate.rates.set(name, rates)

    # What holds

    def _terms(self, server: str, tool: str | None) -> Iterator[Term]:
        yield from self._whole.of(None)
        yield from self.servers.get(server).terms.of(tool)

    def _rule(self, kind: Kind, server: str, name: str, tool: str | None = None) -> Rule | None:
        rules = [term.rule for term in self._terms(server, tool) if term.rule]
        if by_code := self._gate.authorities.rule(kind, name):
            rules.append(by_code)
        return _all_of(rules) if rules else None

    def _limits(self, server: str, name: str, tool: str) -> Iterator[Limited]:
        yield from self._gate.rates.limits(name)
        for term in self._whole.of(None):
            yield ("proxy",), "The tools of this proxy", term.rates
        for term in self.servers.get(server).terms.of(tool):
            which = "" if term.pattern is None else f" like {term.pattern!r}"
            yield (server, term.pattern), f"The tools{which} of server {server!r}", term.rates


def _all_of(rules: Sequence[Rule]) -> Rule:
    return reduce(lambda one, other: one & other, rules)
