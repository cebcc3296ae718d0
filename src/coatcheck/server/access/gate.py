"""What is asked before anything is made of a request: may its caller do this, and again so soon?"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError

from coatcheck.errors import Forbidden, TooOften
from coatcheck.server.access.authorities import Authorities, Kind, only_shown
from coatcheck.server.access.rates import Rates
from coatcheck.server.failures import protocol_error
from coatcheck.server.hook import RequestContext, Step
from coatcheck.server.runtime import Runtime

Json = dict[str, Any]
_LISTS: dict[str, tuple[str, Kind, str]] = {
    "tools/list": ("tools", "tool", "name"),
    "prompts/list": ("prompts", "prompt", "name"),
    "resources/list": ("resources", "resource", "uri"),
    "resources/templates/list": ("resourceTemplates", "resource", "uriTemplate"),
}
"""Where a list has its items, what they are, and what each is known by."""


class Gate:
    def __init__(self, runtime: Runtime, authorities: Authorities, rates: Rates) -> None:
        self._runtime, self.authorities, self.rates = runtime, authorities, rates

    @property
    def is_open(self) -> bool:
        """Whether all may do everything."""
        return not self.authorities and not self.rates

    def forget(self, tool: str) -> None:
        """Forget the rule and the rate of a tool that is no more."""
        self.authorities.remove("tool", tool)
        self.rates.remove(tool)

    async def admit_call(self, ctx: RequestContext, tool: str, arguments: Mapping[str, Any]) -> None:
        """Let a `tools/call` pass.

        Raises:
            MCPError: The caller may not make this call, or not so soon.
        """
        if self.is_open:
            return
        with self.refusing(ctx, tool=tool):
            await self.authorities.check_tool(tool, arguments)
            self.rates.check(tool, self._runtime.running.identity.owner_of(ctx))

    def steps(self) -> dict[str, Step]:
        """Return what is done before and after requests that are no calls."""
        lists: dict[str, Step] = dict.fromkeys(_LISTS, self.list)
        return {
            **lists,
            "prompts/get": self._get_prompt,
            "resources/read": self._use_resource,
            "resources/subscribe": self._use_resource,
            "completion/complete": self._complete,
        }

    async def without_hidden(self, ctx: RequestContext) -> RequestContext:
        """Return a request to listen without the resources its caller may not read."""
        wanted: Any = (ctx.params or {}).get("notifications")
        uris: Any = cast("Json", wanted).get("resourceSubscriptions") if isinstance(wanted, dict) else None
        if not self.authorities or not isinstance(uris, list):
            return ctx
        kept = [uri for uri in cast("list[Any]", uris) if not isinstance(uri, str) or await self._may_read(ctx, uri)]
        narrowed: Json = {**cast("Json", wanted), "resourceSubscriptions": kept}
        return replace(ctx, params={**(ctx.params or {}), "notifications": narrowed})

    async def _may_read(self, ctx: RequestContext, uri: str) -> bool:
        try:
            await self._checked_uri(ctx, uri)
        except MCPError:
            return False
        return True

    async def list(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Return a list without what the caller may not use."""
        result = await call_next(ctx)
        where, kind, key = _LISTS[ctx.method]
        if not self.authorities or not isinstance(result, dict) or not isinstance(items := result.get(where), list):
            return result
        is_cached = "cacheScope" in result
        shown = await only_shown(self.authorities, kind, cast("list[Json]", items), key)
        return {**result, where: shown, **({"cacheScope": "private"} if is_cached else {})}

    async def _get_prompt(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        params: Json = dict(ctx.params or {})
        name, arguments = params.get("name"), cast("Json", params.get("arguments") or {})
        if isinstance(name, str) and isinstance(arguments, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            await self._checked(ctx, "prompt", name, self.authorities.check_prompt(name, arguments))
        return await call_next(ctx)

    async def _use_resource(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        uri = (ctx.params or {}).get("uri")
        if isinstance(uri, str):
            await self._checked_uri(ctx, uri)
        return await call_next(ctx)

    async def _complete(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """What may be completed is what may be used."""
        ref: Any = (ctx.params or {}).get("ref")
        match ref:
            case {"type": "ref/prompt", "name": str() as name}:
                await self._checked(ctx, "prompt", name, self.authorities.check_prompt(name, None))
            case {"type": "ref/resource", "uri": str() as uri}:
                await self._checked_template(ctx, uri)
            case _:
                pass
        return await call_next(ctx)

    async def _checked_uri(self, ctx: RequestContext, uri: str) -> None:
        if self.authorities:
            server = self._runtime.running.server
            await self._checked(ctx, "resource", uri, self.authorities.check_resource(server, uri))

    async def _checked_template(self, ctx: RequestContext, uri: str) -> None:
        if self.authorities:
            server = self._runtime.running.server
            await self._checked(ctx, "resource", uri, self.authorities.check_template(server, uri))

    async def _checked(self, ctx: RequestContext, kind: Kind, name: str, check: Awaitable[None]) -> None:
        with self.refusing(ctx, **{kind: name}):
            await check

    @contextmanager
    def refusing(self, ctx: RequestContext, **what: str) -> Generator[None]:
        """Write down what is refused meanwhile, and turn it into the error the caller gets."""
        try:
            yield
        except (Forbidden, TooOften) as error:
            if isinstance(error, Forbidden):
                what = {error.kind: error.name, **what}
            running = self._runtime.running
            reason = "too often" if isinstance(error, TooOften) else "not allowed"
            running.desk.audit.denied(running.identity.owner_of(ctx), ctx.method, reason, **what)
            raise protocol_error(error) from error
