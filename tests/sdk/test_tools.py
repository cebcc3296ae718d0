"""Tools: what can be known of them before they are called, what happens before their body, how they may change."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from mcp.server.mcpserver import Context, Elicit, MCPServer, RequestStateSecurity, Resolve
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import X_MCP_HEADER_KEY
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from tests.sdk.peer import Client
from tests.sdk.probe import serving
from tests.sdk.transports import Connect, Way, on_streams, over_http

pytestmark = pytest.mark.anyio


class Name(BaseModel):
    name: str


async def ask_name() -> Elicit[Name]:
    return Elicit("Who?", Name)


async def plain(number: int, text: str = "nothing") -> str:
    """Do it."""
    return f"{number} {text}"


async def with_context(number: int, there: Context) -> str:
    return there.request_context.method


async def with_resolver(name: Annotated[Name, Resolve(ask_name)]) -> str:
    return name.name


async def with_header(region: Annotated[str, Field(json_schema_extra={X_MCP_HEADER_KEY: "Region"})]) -> str:
    return region


# What can be known of them


def test_arguments_can_be_validated_without_a_call() -> None:
    validate = Tool.from_function(plain, "any").fn_metadata.validate_arguments
    validate({"number": 1})
    for wrong in ({}, {"number": "one"}, {"number": 1, "text": 2}):
        with pytest.raises(ValidationError):
            validate(wrong)


def test_what_is_not_taken_from_the_arguments_is_known() -> None:
    contexts = {each: Tool.from_function(each).context_kwarg for each in (plain, with_context, with_resolver)}
    resolved = {each: set(Tool.from_function(each).resolved_params) for each in (plain, with_context, with_resolver)}
    assert contexts == {plain: None, with_context: "there", with_resolver: None}
    assert resolved == {plain: set(), with_context: set(), with_resolver: {"name"}}


def test_an_argument_that_a_header_repeats_is_marked_in_the_schema() -> None:
    assert X_MCP_HEADER_KEY in str(Tool.from_function(with_header).parameters)
    assert X_MCP_HEADER_KEY not in str(Tool.from_function(plain).parameters)


def test_a_wrapper_is_shown_by_the_signature_it_gives_itself() -> None:
    async def function(number: int, hidden: bytes, text: str = "nothing") -> Name:
        """Do it."""
        return Name(name=f"{number} {hidden!r} {text}")

    @functools.wraps(function)
    async def wrapper(**arguments: Any) -> Any:
        return await function(**arguments, hidden=b"")

    signature = inspect.signature(function, eval_str=True)
    shown = [parameter for parameter in signature.parameters.values() if parameter.name != "hidden"]
    wrapper.__signature__ = signature.replace(parameters=shown)  # pyright: ignore[reportAttributeAccessIssue]
    wrapper.__annotations__ = {"number": int, "text": str, "return": Name}
    tool = Tool.from_function(wrapper)
    assert (tool.name, tool.description, tool.is_async) == ("function", "Do it.", True)
    assert tool.parameters["required"] == ["number"]
    assert list(tool.parameters["properties"]) == ["number", "text"]
    assert tool.output_schema is not None
    assert list(tool.output_schema["properties"]) == ["name"]


# What happens before their body


async def test_a_body_is_not_reached_by_arguments_that_do_not_fit(way: Way) -> None:
    reached: list[int] = []
    server = serving()

    @server.tool()
    async def note(number: int) -> None:
        reached.append(number)

    async with way(server) as peer:
        refused = await peer.call("note", number="one")
        await peer.call("note", number=1)
    assert refused["isError"] is True
    assert reached == [1]


async def test_a_body_is_not_reached_before_a_newer_client_has_answered(newer: Way) -> None:
    server = serving()
    server.add_tool(with_resolver)
    call: dict[str, Any] = {"name": "with_resolver", "arguments": {}}
    async with newer(server, capabilities={"elicitation": {"form": {}}}) as peer:
        asked = await peer.result("tools/call", call)
        ((key, question),) = asked["inputRequests"].items()
        answers = {key: {"action": "accept", "content": {"name": "Ada"}}}
        state = {"requestState": asked["requestState"]}
        answered = await peer.result("tools/call", {**call, "inputResponses": answers, **state})
    assert asked["resultType"] == "input_required"
    assert question["method"] == "elicitation/create"
    assert answered["content"][0]["text"] == "Ada"


@pytest.mark.parametrize("connect", [on_streams, over_http])
async def test_an_older_client_is_asked_before_the_body_is_reached(connect: Connect) -> None:
    server = serving()
    server.add_tool(with_resolver)
    answers = {"elicitation/create": {"action": "accept", "content": {"name": "Ada"}}}
    async with connect(server, Client(capabilities={"elicitation": {}}, answers=answers)) as peer:
        assert (await peer.call("with_resolver"))["content"][0]["text"] == "Ada"
        assert (await peer.hears("elicitation/create")).params["message"] == "Who?"


# Calling them without a client


async def test_a_call_without_a_client_gives_what_a_client_would_be_told() -> None:
    result = await serving().call_tool("echo", {"text": "hello"}, None)
    assert isinstance(result, CallToolResult)
    kept = result.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"result_type"})
    assert kept == {
        "content": [{"type": "text", "text": "hello"}],
        "structuredContent": {"result": "hello"},
        "isError": False,
    }


async def test_what_goes_wrong_in_a_call_is_told_apart() -> None:
    server, cause = serving(), ValueError("secret")
    refusal = MCPError(-32000, "no", {"a": 1})

    @server.tool()
    async def fail(how: str) -> str:
        raise {"crash": cause, "error": ToolError("sorry"), "refusal": refusal}[how]

    with pytest.raises(UnexpectedToolError) as crashed:
        await server.call_tool("fail", {"how": "crash"}, None)
    assert crashed.value.__cause__ is cause
    assert "secret" not in str(crashed.value)
    for tool, arguments in (("fail", {"how": "error"}), ("fail", {}), ("unknown", {})):
        with pytest.raises(ToolError) as failed:
            await server.call_tool(tool, arguments, None)
        assert not isinstance(failed.value, UnexpectedToolError)
    with pytest.raises(MCPError) as refused:
        await server.call_tool("fail", {"how": "refusal"}, None)
    assert refused.value is refusal


# How they may change


async def test_tools_can_be_added_when_the_server_starts(way: Way) -> None:
    @asynccontextmanager
    async def lifespan(server: MCPServer[Any]) -> AsyncGenerator[None]:
        assert [tool.name for tool in await server.list_tools()] == ["echo"]
        hints = ToolAnnotations(read_only_hint=True)
        MCPServer.add_tool(server, plain, annotations=hints, structured_output=False)
        yield

    async with way(serving(lifespan=lifespan)) as peer:
        _, added = (await peer.result("tools/list"))["tools"]
        assert (await peer.call("plain", number=1))["content"][0]["text"] == "1 nothing"
    assert added["name"] == "plain"
    assert added["annotations"] == {"readOnlyHint": True}
    assert "outputSchema" not in added


async def test_of_two_tools_with_one_name_the_first_stays(caplog: pytest.LogCaptureFixture) -> None:
    server = serving()
    with caplog.at_level(logging.WARNING):
        server.add_tool(plain, "echo")
    async with on_streams(server, Client()) as peer:
        assert (await peer.call("echo", text="still there"))["content"][0]["text"] == "still there"


async def test_a_tool_that_was_removed_is_gone() -> None:
    server = serving()
    server.remove_tool("echo")
    async with on_streams(server, Client()) as peer:
        assert (await peer.result("tools/list"))["tools"] == []


async def test_a_copy_of_a_tool_may_have_another_body() -> None:
    def silent(number: int, text: str = "nothing") -> str:
        raise AssertionError

    tool = Tool.from_function(silent).model_copy(update={"fn": plain, "is_async": True})
    server: MCPServer[Any] = MCPServer("probe", tools=[tool])
    async with on_streams(server, Client()) as peer:
        assert (await peer.call("silent", number=1))["content"][0]["text"] == "1 nothing"


# What a server was made with


class Life:
    @asynccontextmanager
    async def lifespan(self, server: MCPServer[Any]) -> AsyncGenerator[dict[str, MCPServer[Any]]]:
        yield {"server": server}


async def test_the_lifespan_is_given_the_server_and_gives_the_state_of_requests(way: Way) -> None:
    life = Life()
    server = serving(lifespan=life.lifespan)
    assert getattr(server.settings.lifespan, "__self__", None) is life

    @server.tool()
    async def look(ctx: Context[dict[str, MCPServer[Any]]]) -> bool:
        return ctx.request_context.lifespan_context["server"] is server

    async with way(server) as peer:
        assert (await peer.call("look"))["structuredContent"] == {"result": True}


def test_what_clients_carry_can_be_sealed_with_a_key_but_not_with_a_short_one() -> None:
    MCPServer("probe", request_state_security=RequestStateSecurity(keys=["0" * 64], audience="probe"))
    with pytest.raises(ValueError, match="32"):
        RequestStateSecurity(keys=["short"], audience="probe")
