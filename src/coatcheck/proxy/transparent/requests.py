"""What clients ask beside calls: lists, resources, prompts, completions, the level of logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import SERVER_INFO_META_KEY
from mcp_types import methods as wire_methods
from pydantic import ValidationError

from coatcheck.client.wire import Json
from coatcheck.dialects.words import FORBIDDEN, INVALID_PARAMS
from coatcheck.errors import CoatcheckError
from coatcheck.proxy.access.guard import Guard
from coatcheck.proxy.diagrams import DIAGRAMS_URI, read_diagrams
from coatcheck.proxy.failures import as_mcp_error
from coatcheck.proxy.framing import neutral
from coatcheck.proxy.naming import Naming
from coatcheck.proxy.servers import Servers
from coatcheck.proxy.sessions.session import Session
from coatcheck.proxy.sessions.sessions import Sessions
from coatcheck.proxy.transparent.finding import find_resource
from coatcheck.proxy.transparent.lists import Lists
from coatcheck.proxy.upstreams.catalog import Kind
from coatcheck.server.calls.caller import MODERN
from coatcheck.server.hook import RequestContext, Step

logger = logging.getLogger("coatcheck")
Serve = Callable[[Session, Json], Awaitable[Json]]
_DIAGRAMS = {"uri": DIAGRAMS_URI, "name": "diagrams", "mimeType": "application/json"}
_RESOURCE_NOT_FOUND = -32002
_ROUND = "input_required"
_LISTS = {kind.value[0]: kind.value[1] for kind in Kind}
_CACHEABLE = {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}


class Requests:
    def __init__(
        self, sessions: Sessions, servers: Servers, naming: Naming, guard: Guard, info: Callable[[], Json]
    ) -> None:
        """`info`: what the proxy says of itself."""
        self._sessions, self._servers, self._naming, self._info = sessions, servers, naming, info
        self._guard, self._lists = guard, Lists(naming, guard)

    def steps(self) -> dict[str, Step]:
        serve: dict[str, Serve] = {
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
        }
        return {method: self._step(work) for method, work in serve.items()}

    async def with_tools(self, ctx: RequestContext, own: HandlerResult) -> HandlerResult:
        """Return a list of tools with those of all servers in it."""
        if not isinstance(own, dict) or (ctx.params or {}).get("cursor"):
            return own
        session = await self._sessions.of(ctx)
        with session.used():
            tools = _fitting(ctx, "tools", await self._lists.tools(session))
        cache = {"cacheScope": "private"} if "cacheScope" in own and self._guard.hides else {}
        return {**own, "tools": [*own["tools"], *self._framed(ctx, {"tools": tools})["tools"]], **cache}

    def _step(self, serve: Serve) -> Step:
        async def step(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
            try:
                wire_methods.validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
            except KeyError:
                return await call_next(ctx)  # which refuses what this generation does not have
            try:
                session = await self._sessions.of(ctx)
                with session.used(), self._guard.refusing(ctx):
                    result = await serve(session, dict(ctx.params or {}))
                if word := _LISTS.get(ctx.method):
                    result = {word: _fitting(ctx, word, result[word])}
                return self._framed(ctx, result)
            except CoatcheckError as error:
                raise as_mcp_error(error, "") from error

        return step

    def _framed(self, ctx: RequestContext, result: Json) -> Json:
        """Return a result in the words of a generation: without what it does not know."""
        version = ctx.protocol_version
        if version not in MODERN:
            return wire_methods.serialize_server_result(ctx.method, version, result)
        if ctx.method in _CACHEABLE and result.get("resultType") != _ROUND:
            result = {"ttlMs": 0, "cacheScope": "private", **result}
        meta: Json = {**(result.get("_meta") or {}), SERVER_INFO_META_KEY: self._info()}
        sieved = wire_methods.serialize_server_result(ctx.method, version, {"resultType": "complete", **result})
        return {**sieved, "_meta": meta}

    # Prompts

    async def _list_prompts(self, session: Session, params: Json) -> Json:
        return {"prompts": await self._lists.prompts(session)}

    async def _get_prompt(self, session: Session, params: Json) -> Json:
        found = self._naming.find(params["name"], self._servers)
        if found is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params['name']}")
        server, name = found
        await self._guard.admit(server, "prompt", params["name"])
        return await _passed(session, server, "prompts/get", {**params, "name": name}, name)

    # Resources

    async def _list_resources(self, session: Session, params: Json) -> Json:
        return {"resources": [_DIAGRAMS, *await self._lists.resources(session)]}

    async def _list_templates(self, session: Session, params: Json) -> Json:
        return {"resourceTemplates": await self._lists.templates(session)}

    async def _read_resource(self, session: Session, params: Json) -> Json:
        if own := read_diagrams(params["uri"]):
            return own
        server, uri = await self._found(session, params["uri"])
        answer = await _passed(session, server, "resources/read", {**params, "uri": uri}, uri)
        contents: Any = answer.get("contents")
        if isinstance(contents, list) and uri != params["uri"]:
            shown = [self._lists.with_uri(server, cast("Json", item)) for item in cast("list[Any]", contents)]
            answer = {**answer, "contents": shown}
        return answer

    async def _subscribe(self, session: Session, params: Json) -> Json:
        await self._subscribed(session, params["uri"], None)
        return {}

    async def _unsubscribe(self, session: Session, params: Json) -> Json:
        await self._unsubscribed(session, params["uri"], None)
        return {}

    async def _subscribed(self, session: Session, uri: str, who: object) -> None:
        server, own_uri = await self._found(session, uri)
        upstream = session.upstream(server)
        await upstream.listening.subscribe(await upstream.connect(), own_uri, who)

    async def _unsubscribed(self, session: Session, uri: str, who: object) -> None:
        server, own_uri = await self._found(session, uri)
        upstream = session.upstream(server)
        await upstream.listening.unsubscribe(await upstream.connect(), own_uri, who)

    @asynccontextmanager
    async def subscribed(self, ctx: RequestContext) -> AsyncGenerator[RequestContext]:
        """Have servers tell of the resources that a stream of 2026-07-28 is to carry, as long as it is open.

        Yields the request without those its caller may not read.
        """
        if ctx.protocol_version not in MODERN:
            yield ctx
            return
        wanted: Any = (ctx.params or {}).get("notifications")
        uris: Any = cast("Json", wanted).get("resourceSubscriptions") if isinstance(wanted, dict) else None
        session = await self._sessions.of(ctx)
        taken, hidden, stream = list[str](), set[str](), object()
        for uri in (
            [each for each in cast("list[Any]", uris) if isinstance(each, str)] if isinstance(uris, list) else ()
        ):
            try:
                with self._guard.refusing(ctx):
                    await self._subscribed(session, uri, stream)
                taken.append(uri)
            except (MCPError, CoatcheckError) as error:  # it may be there later
                if isinstance(error, MCPError) and error.code == FORBIDDEN:
                    hidden.add(uri)
        try:
            with session.used():
                yield _without(ctx, hidden) if hidden else ctx
        finally:
            for uri in taken:
                session.run(self._unsubscribed(session, uri, stream))

    async def _found(self, session: Session, uri: str) -> tuple[str, str]:
        """Return the server of a resource and its own URI: also of one that comes without a prefix, from a result."""
        found = self._naming.find_uri(uri, self._servers)
        if found:
            await self._guard.admit(found[0], "resource", uri)
        found = found or await find_resource(await self._lists.servers(session), uri)
        if found is None:
            raise MCPError(_RESOURCE_NOT_FOUND, f"Resource not found: {uri}", {"uri": uri})
        return found

    # The rest

    async def _complete(self, session: Session, params: Json) -> Json:
        ref: Json = params["ref"]
        if ref.get("type") == "ref/prompt":
            found = self._naming.find(ref["name"], self._servers)
            asked = {**ref, "name": found[1]} if found else ref
        else:
            found = self._naming.find_uri(ref["uri"], self._servers)
            found = found or await find_resource(await self._lists.servers(session), ref["uri"])
            asked = {**ref, "uri": found[1]} if found else ref
        if found is None:
            raise MCPError(INVALID_PARAMS, "There is nothing of that name to complete")
        kind = "prompt" if ref.get("type") == "ref/prompt" else "resource"
        await self._guard.admit(found[0], kind, ref.get("name") or ref.get("uri"))
        name = asked.get("name") or asked.get("uri")
        return await _passed(session, found[0], "completion/complete", {**params, "ref": asked}, name)

    async def _set_level(self, session: Session, params: Json) -> Json:
        """Have all servers log at a level, if they log at all, and know how to be told."""
        await asyncio.gather(
            *(
                upstream.request("logging/setLevel", {"level": params["level"]})
                for upstream in await self._lists.servers(session)
            ),
            return_exceptions=True,
        )
        return {}


def _without(ctx: RequestContext, uris: Collection[str]) -> RequestContext:
    """Return a request to listen without some of the resources it asks for."""
    params: Json = dict(ctx.params or {})
    wanted: Json = params["notifications"]
    kept = [uri for uri in wanted["resourceSubscriptions"] if uri not in uris]
    return replace(ctx, params={**params, "notifications": {**wanted, "resourceSubscriptions": kept}})


def _fitting(ctx: RequestContext, word: str, items: list[Json]) -> list[Json]:
    """Return a list without what is none of its kind: one server that talks nonsense must not hide the others."""
    if _fits(ctx, word, items):
        return items
    fitting = [item for item in items if _fits(ctx, word, [item])]
    logger.warning("%d of the %s that servers list are left out: they are none", len(items) - len(fitting), word)
    return fitting


def _fits(ctx: RequestContext, word: str, items: list[Json]) -> bool:
    framed: Json = {word: items, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    try:
        wire_methods.serialize_server_result(ctx.method, ctx.protocol_version, framed)
    except ValidationError:
        return False
    return True


async def _passed(session: Session, server: str, method: str, params: Json, name: Any) -> Json:
    upstream = session.upstream(server)
    sent = {word: value for word, value in params.items() if word != "_meta"}
    return neutral(await upstream.request(method, sent, name if isinstance(name, str) else None))
