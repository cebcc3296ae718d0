"""What clients ask beside calls: lists, resources, prompts, completions, the level of logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import SERVER_INFO_META_KEY
from mcp_types import methods as wire_methods
from pydantic import ValidationError

from coatcheck.client.wire import Json
from coatcheck.dialects.words import INVALID_PARAMS
from coatcheck.errors import CoatcheckError
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
    def __init__(self, sessions: Sessions, servers: Servers, naming: Naming, info: Callable[[], Json]) -> None:
        """`info`: what the proxy says of itself."""
        self._sessions, self._servers, self._naming, self._info = sessions, servers, naming, info
        self._lists = Lists(naming)

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
        return {**own, "tools": [*own["tools"], *self._framed(ctx, {"tools": tools})["tools"]]}

    def _step(self, serve: Serve) -> Step:
        async def step(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
            try:
                wire_methods.validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
            except KeyError:
                return await call_next(ctx)  # which refuses what this generation does not have
            try:
                session = await self._sessions.of(ctx)
                with session.used():
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
    async def subscribed(self, ctx: RequestContext) -> AsyncGenerator[None]:
        """Have servers tell of the resources that a stream of 2026-07-28 is to carry, as long as it is open."""
        wanted: Any = (ctx.params or {}).get("notifications")
        uris: Any = cast("Json", wanted).get("resourceSubscriptions") if isinstance(wanted, dict) else None
        if ctx.protocol_version not in MODERN or not isinstance(uris, list):
            yield
            return
        session = await self._sessions.of(ctx)
        taken, stream = list[str](), object()
        for uri in cast("list[Any]", uris):
            with suppress(MCPError, CoatcheckError):  # it may be there later
                await self._subscribed(session, uri, stream)
                taken.append(uri)
        try:
            with session.used():
                yield
        finally:
            for uri in taken:
                session.run(self._unsubscribed(session, uri, stream))

    async def _found(self, session: Session, uri: str) -> tuple[str, str]:
        """Return the server of a resource and its own URI: also of one that comes without a prefix, from a result."""
        found = self._naming.find_uri(uri, self._servers) or await find_resource(session, uri)
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
            found = self._naming.find_uri(ref["uri"], self._servers) or await find_resource(session, ref["uri"])
            asked = {**ref, "uri": found[1]} if found else ref
        if found is None:
            raise MCPError(INVALID_PARAMS, "There is nothing of that name to complete")
        name = asked.get("name") or asked.get("uri")
        return await _passed(session, found[0], "completion/complete", {**params, "ref": asked}, name)

    async def _set_level(self, session: Session, params: Json) -> Json:
        """Have all servers log at a level, if they log at all, and know how to be told."""
        await asyncio.gather(
            *(upstream.request("logging/setLevel", {"level": params["level"]}) for upstream in session.upstreams()),
            return_exceptions=True,
        )
        return {}


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
