"""A tool's body without its request: the SDK's own context over a channel and a connection that are not the SDK's."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, Protocol

import anyio
import pytest
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CallToolResult,
    ClientCapabilities,
    InputRequiredResult,
    InputResponseRequestParams,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

from tests.sdk.peer import NEWER, OLDER, Json
from tests.sdk.probe import serving

pytestmark = pytest.mark.anyio

ABLE: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ANSWERS: dict[str, Json] = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "sampling/createMessage": {"role": "assistant", "model": "any", "content": {"type": "text", "text": "Ada"}},
    "roots/list": {"roots": [{"uri": "file:///ada"}]},
}


class Name(BaseModel):
    name: str


class Channel:
    """A dispatch context by its form only: it answers questions itself, and keeps the rest."""

    transport = TransportContext(kind="contract", can_send_request=True)
    can_send_request = True
    message_metadata = None
    request_id = "r"

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any] | None]] = []
        self.options: list[CallOptions | None] = []
        self.told: list[tuple[str, Mapping[str, Any] | None]] = []
        self.reported: list[tuple[float, float | None, str | None]] = []

    @property
    def cancel_requested(self) -> anyio.Event:
        return anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        self.asked.append((method, params))
        self.options.append(opts)
        return ANSWERS[method]

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        self.told.append((method, params))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.reported.append((progress, total, message))


class Lean(Connection):
    """A connection with nothing but what a session asks of it."""

    def __init__(self, outbound: Channel, client: Connection) -> None:
        self.outbound, self.protocol_version, self.session_id = outbound, client.protocol_version, None
        self.client_params = client.client_params
        self.client_capabilities = client.client_capabilities


def context(
    server: MCPServer[Any],
    channel: Channel,
    version: str = OLDER,
    given: InputResponseRequestParams | None = None,
) -> Context[Any, Any]:
    """Return a context that asks as 2025-11-25 does, for a call that came over `version`."""
    client = Connection.from_envelope(OLDER, {"name": "contract", "version": "1"}, ABLE)
    return Context(
        request_context=ServerRequestContext(
            session=ServerSession(channel, Lean(channel, client)),
            lifespan_context="state",
            protocol_version=version,
            method="tools/call",
            request_id="r",
            meta={"com.example/a": 1},  # pyright: ignore[reportArgumentType]
        ),
        mcp_server=server,
        input_params=given or InputResponseRequestParams(),
    )


class Body(Protocol):
    async def __call__(self, ctx: Context) -> Any: ...


async def run(body: Body) -> tuple[Channel, Any]:
    """Run a body as a tool. Returns what it said meanwhile, and what it returned."""
    server, channel = serving(), Channel()
    returned: list[Any] = []

    @server.tool()
    async def tool(ctx: Context) -> None:
        returned.append(await body(ctx))

    result = await server.call_tool("tool", {}, context(server, channel))
    assert isinstance(result, CallToolResult)
    assert not result.is_error
    return channel, returned[0]


# A connection


def test_a_connection_can_be_made_of_what_a_request_says() -> None:
    client = Connection.from_envelope(NEWER, {"name": "contract", "version": "1"}, ABLE)
    assert client.protocol_version == NEWER
    assert client.client_params is not None
    assert client.client_params.client_info.name == "contract"
    assert client.client_capabilities == ClientCapabilities.model_validate(ABLE)


@pytest.mark.parametrize(("info", "capabilities"), [(None, None), (1, "x"), ({"name": 1}, {"roots": 1})])
def test_what_is_no_description_of_a_client_counts_as_none(info: Any, capabilities: Any) -> None:
    client = Connection.from_envelope(NEWER, info, capabilities)
    assert client.client_params is None
    assert client.client_capabilities is None


def test_capabilities_count_without_the_name_of_the_client() -> None:
    client = Connection.from_envelope(NEWER, None, {"extensions": {"com.example/a": {}}})
    assert client.client_params is None
    assert client.client_capabilities is not None
    assert client.client_capabilities.extensions == {"com.example/a": {}}


# What a body can do


async def test_an_elicitation_is_a_request_on_the_channel() -> None:
    channel, answer = await run(lambda ctx: ctx.elicit("Who?", Name))
    ((method, params),) = channel.asked
    assert params is not None
    assert (method, params["message"]) == ("elicitation/create", "Who?")
    assert params["requestedSchema"]["properties"]["name"]["type"] == "string"
    assert answer.data == Name(name="Ada")


async def test_an_elicitation_by_url_is_one_with_that_mode() -> None:
    channel, _ = await run(lambda ctx: ctx.elicit_url("Look", "https://example.com", "e"))
    ((method, params),) = channel.asked
    assert params is not None
    assert (method, params["mode"], params["url"]) == ("elicitation/create", "url", "https://example.com")


async def test_sampling_is_a_request_on_the_channel() -> None:
    async def sample(ctx: Context) -> Any:
        message = SamplingMessage(role="user", content=TextContent(type="text", text="Who?"))
        with pytest.warns(MCPDeprecationWarning):
            return await ctx.session.create_message([message], max_tokens=5)  # pyright: ignore[reportDeprecated]

    channel, answer = await run(sample)
    assert [method for method, _ in channel.asked] == ["sampling/createMessage"]
    assert answer.content.text == "Ada"


async def test_roots_are_a_request_on_the_channel_of_the_connection() -> None:
    async def roots(ctx: Context) -> Any:
        return await ctx.session.send_request(ListRootsRequest(), ListRootsResult, request_read_timeout_seconds=5.0)

    channel, answer = await run(roots)
    assert [method for method, _ in channel.asked] == ["roots/list"]
    assert channel.options == [{"timeout": 5.0}]
    assert str(answer.roots[0].uri) == "file:///ada"


async def test_progress_goes_to_the_channel() -> None:
    channel, _ = await run(lambda ctx: ctx.report_progress(1, 2, "half"))
    assert channel.reported == [(1, 2, "half")]


async def test_a_log_is_a_notification_on_the_channel() -> None:
    async def log(ctx: Context) -> None:
        send = ctx.session.send_log_message  # pyright: ignore[reportDeprecated]
        with pytest.warns(MCPDeprecationWarning):
            await send("info", "hello", related_request_id=ctx.request_id)

    channel, _ = await run(log)
    ((method, params),) = channel.told
    assert params is not None
    assert (method, params["level"], params["data"]) == ("notifications/message", "info", "hello")


async def test_a_body_sees_what_the_context_was_made_with() -> None:
    async def look(ctx: Context) -> Any:
        request = ctx.request_context
        assert ctx.session.client_params is not None
        return request.lifespan_context, request.request_id, dict(request.meta or {}), ctx.client_capabilities

    _, (state, request_id, meta, capabilities) = await run(look)
    assert (state, request_id, meta) == ("state", "r", {"com.example/a": 1})
    assert capabilities == ClientCapabilities.model_validate(ABLE)


# Resolvers


async def ask_name() -> Elicit[Name]:
    return Elicit("Who?", Name)


def _resolving() -> MCPServer[Any]:
    server = serving()

    @server.tool()
    async def greet(name: Annotated[Name, Resolve(ask_name)]) -> str:
        return name.name

    return server


async def test_a_resolver_of_an_older_call_asks_on_the_channel() -> None:
    server, channel = _resolving(), Channel()
    result = await server.call_tool("greet", {}, context(server, channel))
    assert isinstance(result, CallToolResult)
    assert result.structured_content == {"result": "Ada"}
    assert [method for method, _ in channel.asked] == ["elicitation/create"]


async def test_a_resolver_of_a_newer_call_returns_its_questions_and_takes_the_answers() -> None:
    server, channel = _resolving(), Channel()
    asked = await server.call_tool("greet", {}, context(server, channel, NEWER))
    assert isinstance(asked, InputRequiredResult)
    assert asked.input_requests is not None
    ((key, question),) = asked.input_requests.items()
    said = question.model_dump(by_alias=True, mode="json", exclude_none=True)
    assert (said["method"], said["params"]["message"]) == ("elicitation/create", "Who?")
    responses = {key: ANSWERS["elicitation/create"]}
    given = InputResponseRequestParams.model_validate(
        {"inputResponses": responses, "requestState": asked.request_state}
    )
    result = await server.call_tool("greet", {}, context(server, channel, NEWER, given))
    assert isinstance(result, CallToolResult)
    assert result.structured_content == {"result": "Ada"}
    assert channel.asked == []


# What a session can do

ASKING = {"send_request", "elicit", "elicit_form", "elicit_url", "create_message", "list_roots", "send_ping"}
TELLING = {
    "report_progress",
    "send_elicit_complete",
    "send_log_message",
    "send_notification",
    "send_progress_notification",
    "send_prompt_list_changed",
    "send_resource_list_changed",
    "send_resource_updated",
    "send_tool_list_changed",
}


def test_all_the_ways_a_session_asks_its_client_are_known() -> None:
    found = {name for name, _ in inspect.getmembers(ServerSession, inspect.isfunction) if not name.startswith("_")}
    assert found - {"check_client_capability"} == ASKING | TELLING
