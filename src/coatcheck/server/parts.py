"""The parts of a server's tasks, put together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import MethodBinding

from coatcheck.server.access.authorities import Authorities
from coatcheck.server.access.gate import Gate
from coatcheck.server.access.rates import Rates
from coatcheck.server.bindings import bindings
from coatcheck.server.calls.caller import MODERN, Acquaintances
from coatcheck.server.calls.calls import Calls
from coatcheck.server.calls.toolbox import Toolbox
from coatcheck.server.discovery import Discovery
from coatcheck.server.hook import Hook, RequestContext, Step
from coatcheck.server.local.calls import LocalCalls
from coatcheck.server.mounting import REACHED, Mounts
from coatcheck.server.policy import TaskPolicy
from coatcheck.server.polling import PollLimit, Polls
from coatcheck.server.runtime import Runtime
from coatcheck.server.settings import Settings
from coatcheck.server.taskless.tools import TicketTools
from coatcheck.server.v2025.methods import Methods as OlderMethods
from coatcheck.server.v2026.listen import METHOD as LISTEN
from coatcheck.server.v2026.listen import listen
from coatcheck.server.v2026.methods import Methods as NewerMethods


class Parts:
    def __init__(
        self, settings: Settings, poll_limit: PollLimit | None, policies: dict[str, TaskPolicy] | None = None
    ) -> None:
        """`policies`: where those of tools are found by name, if not among the tools that were registered."""
        self.mounts = Mounts()
        self.runtime = Runtime(settings, lambda: self.toolbox.all(), self.mounts)
        self.toolbox = Toolbox(self.runtime, policies)
        self.polls = Polls(self.runtime, poll_limit)
        self.ticket_tools = TicketTools(self.runtime) if settings.has_ticket_tools else None
        self.acquaintances = acquaintances = Acquaintances()
        access = settings.access
        self.gate = Gate(self.runtime, Authorities(access.authorize, roles=access.roles), Rates(access.rate))
        self.calls = Calls(self.runtime, self.toolbox, acquaintances, self.gate)
        self.local = LocalCalls(self.runtime, self.toolbox, self.calls, self.gate, self.mounts)
        self._older = OlderMethods(self.runtime, self.polls, acquaintances)
        self._newer = NewerMethods(self.runtime, self.polls, settings.needs_name)
        names = self.ticket_tools.names if self.ticket_tools else frozenset[str]()
        self.told = Discovery(self.runtime, self.toolbox.policies, acquaintances, names)
        self.steps: dict[str, Step] = {
            **self.gate.steps(),
            "initialize": self.told.initialize,
            "server/discover": self.told.discover,
            "tools/list": self._list_tools,
            "tools/call": _pass_on,
            LISTEN: self._listen,
        }
        for method in REACHED:
            self.steps[method] = self.mounts.step(self.steps[method])
        self.hook = Hook(self.steps)

    def methods(self) -> Sequence[MethodBinding]:
        return bindings(self._older, self._newer)

    async def _list_tools(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        return await self.told.list_tools(ctx, partial(self.gate.list, call_next=call_next))

    async def _listen(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        ctx = await self.gate.without_hidden(ctx)
        if ctx.protocol_version in MODERN:
            return await listen(self.runtime.running, ctx, call_next)
        return await call_next(ctx)


async def _pass_on(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """For calls that are answered by the way, with `Verbatim`."""
    return await call_next(ctx)
