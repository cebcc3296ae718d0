"""What the core scenarios of the conformance suite call, read and ask for, on any server of the SDK."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Annotated, Any

from mcp import MCPError
from mcp.server.mcpserver import Audio, Context, Image, MCPServer, UserMessage
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    Completion,
    ContentBlock,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import Field

Anything = MCPServer[Any]
Offer = Callable[[], Callable[[Callable[..., Any]], Any]]
Asked = InputRequiredResult

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=")
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def furnish(server: Anything, offer: Offer) -> None:
    """Give the server every fixture; `offer` makes its tools, as `server.tool` does."""
    _offer_content(offer)
    _offer_questions(offer)
    _offer_rounds(offer)
    _offer_requests(offer)
    _offer_diagnoses(server, offer)
    _add_resources(server)
    _add_prompts(server)


def schema_tool() -> Tool:
    """Return a tool whose schema is none that a signature gives."""

    def json_schema_2020_12_tool() -> str:
        """Has a schema with what 2020-12 allows."""
        return "called"

    return Tool.from_function(json_schema_2020_12_tool).model_copy(update={"parameters": SCHEMA})


# Tools that answer


def _resource(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def _offer_content(offer: Offer) -> None:
    @offer()
    def test_simple_text() -> str:
        """Returns a text."""
        return "This is a simple text response for testing."

    @offer()
    def test_image_content() -> Image:
        """Returns an image."""
        return Image(data=PNG, format="png")

    @offer()
    def test_audio_content() -> Audio:
        """Returns a sound."""
        return Audio(data=WAV, format="wav")

    @offer()
    def test_embedded_resource() -> EmbeddedResource:
        """Returns a resource."""
        return _resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")

    @offer()
    def test_multiple_content_types() -> list[ContentBlock]:
        """Returns one of each."""
        data = json.dumps({"test": "data", "value": 123})
        return [
            TextContent(text="Multiple content types test:"),
            Image(data=PNG, format="png").to_image_content(),
            _resource("test://mixed-content-resource", "application/json", data),
        ]

    @offer()
    def test_error_handling() -> str:
        """Fails."""
        raise ToolError("This tool intentionally returns an error for testing")

    @offer()
    async def test_tool_with_progress(ctx: Context[Any, Any]) -> str:
        """Says how far it is."""
        for progress in (0, 50, 100):
            await ctx.report_progress(progress, 100)
        return "done"

    @offer()
    def test_x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        """Has a parameter that is also sent as a header."""
        return region


# Tools that ask before they answer


def form(message: str, **properties: str) -> ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}
    return ElicitRequest(
        params=ElicitRequestFormParams(message=message, requested_schema={**schema, "required": [*properties]})
    )


def sample(text: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def ask(state: str | None = None, /, **requests: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


def _answer(ctx: Context[Any, Any], key: str, field: str) -> object:
    """Return a field of the form that was filled in, if it was."""
    given = (ctx.input_responses or {}).get(key)
    return given.content.get(field) if isinstance(given, ElicitResult) and given.content else None


def _offer_questions(offer: Offer) -> None:
    @offer()
    def test_input_required_result_elicitation(ctx: Context[Any, Any]) -> str | Asked:
        """Asks for a name."""
        name = _answer(ctx, "user_name", "name")
        return f"Hello, {name}!" if name else ask(user_name=form("What is your name?", name="string"))

    @offer()
    def test_input_required_result_sampling(ctx: Context[Any, Any]) -> str | Asked:
        """Asks a model."""
        given = (ctx.input_responses or {}).get("capital_question")
        if isinstance(given, CreateMessageResult) and isinstance(given.content, TextContent):
            return given.content.text
        return ask(capital_question=sample("What is the capital of France?"))

    @offer()
    def test_input_required_result_list_roots(ctx: Context[Any, Any]) -> str | Asked:
        """Asks for roots."""
        given = (ctx.input_responses or {}).get("client_roots")
        if isinstance(given, ListRootsResult):
            return ", ".join(str(root.uri) for root in given.roots)
        return ask(client_roots=ListRootsRequest())

    @offer()
    def test_input_required_result_multiple_inputs(ctx: Context[Any, Any]) -> str | Asked:
        """Asks for three things at once."""
        questions: dict[str, InputRequest] = {
            "user_name": form("What is your name?", name="string"),
            "greeting": sample("Generate a greeting"),
            "client_roots": ListRootsRequest(),
        }
        if questions.keys() <= (ctx.input_responses or {}).keys():
            return "All answered"
        return ask("asked", **questions)

    @offer()
    def test_input_required_result_capabilities(ctx: Context[Any, Any]) -> str | Asked:
        """Asks for what the client can give."""
        can = ctx.client_capabilities
        questions: dict[str, InputRequest] = {}
        if can and can.sampling:
            questions["sampled"] = sample("Say something")
        if can and can.elicitation:
            questions["elicited"] = form("Say something", text="string")
        return ask(**questions) if questions else "There is nobody to ask"


def _offer_rounds(offer: Offer) -> None:
    @offer()
    def test_input_required_result_request_state(ctx: Context[Any, Any]) -> str | Asked:
        """Asks, and has its state given back."""
        if ctx.request_state == "asked" and _answer(ctx, "confirm", "ok"):
            return "state-ok"
        return ask("asked", confirm=form("Please confirm", ok="boolean"))

    @offer()
    def test_input_required_result_tampered_state(ctx: Context[Any, Any]) -> str | Asked:
        """Asks, with a state nobody else can make."""
        if ctx.request_state == "asked":
            return "state-ok"
        return ask("asked", confirm=form("Please confirm", ok="boolean"))

    @offer()
    def test_input_required_result_multi_round(ctx: Context[Any, Any]) -> str | Asked:
        """Asks twice."""
        if ctx.request_state is None:
            return ask("once", step1=form("Step 1: What is your name?", name="string"))
        if ctx.request_state == "once":
            return ask("twice", step2=form("Step 2: What is your favorite color?", color="string"))
        return f"It is {_answer(ctx, 'step2', 'color')}"

    @offer()
    async def test_streaming_elicitation(ctx: Context[Any, Any]) -> str | Asked:
        """Says how far it is, then asks."""
        await ctx.report_progress(1, 2)
        return "Thank you" if ctx.input_responses else ask(confirm=form("Please confirm", ok="boolean"))


# Tools that ask while they run, as versions before 2026-07-28 allow


DEFAULTS: dict[str, Any] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_OPTIONS = ["option1", "option2", "option3"]
_TITLES = ["Option One", "Option Two", "Option Three"]
_TITLED = [{"const": f"value{number}", "title": title} for number, title in enumerate(_TITLES, 1)]
ENUMS: dict[str, Any] = {  # with the values that the suite answers with
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": _TITLES},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}


async def _elicit(ctx: Context[Any, Any], message: str, properties: dict[str, Any]) -> str:
    schema = {"type": "object", "properties": properties}
    answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


def _offer_requests(offer: Offer) -> None:
    @offer()
    async def test_elicitation(message: str, ctx: Context[Any, Any]) -> str:
        """Asks for a name and an address."""
        return await _elicit(ctx, message, {"username": {"type": "string"}, "email": {"type": "string"}})

    @offer()
    async def test_elicitation_sep1034_defaults(ctx: Context[Any, Any]) -> str:
        """Asks with defaults."""
        return await _elicit(ctx, "Please check", DEFAULTS)

    @offer()
    async def test_elicitation_sep1330_enums(ctx: Context[Any, Any]) -> str:
        """Asks for one of many."""
        return await _elicit(ctx, "Please choose", ENUMS)

    @offer()
    async def test_sampling(prompt: str, ctx: Context[Any, Any]) -> str:
        """Asks a model."""
        message = SamplingMessage(role="user", content=TextContent(text=prompt))
        answer = await ctx.session.create_message(  # pyright: ignore[reportDeprecated]
            [message], max_tokens=100, related_request_id=ctx.request_id
        )
        return f"LLM response: {answer.content}"


# Tools the suite looks into the server with


def _offer_diagnoses(server: Anything, offer: Offer) -> None:
    @offer()
    def test_missing_capability(ctx: Context[Any, Any]) -> str:
        """Needs a client that can sample."""
        if ctx.client_capabilities and ctx.client_capabilities.sampling:
            return "It can sample"
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="This needs sampling",
            data={"requiredCapabilities": {"sampling": {}}},
        )

    @offer()
    async def test_logging_tool(ctx: Context[Any, Any]) -> str:
        """Logs."""
        await ctx.info("A line of the log")  # pyright: ignore[reportDeprecated]
        return "logged"

    @offer()
    async def test_trigger_tool_change(ctx: Context[Any, Any]) -> str:
        """Changes the tools there are."""
        server.add_tool(lambda: "new", name="test_new_tool", description="Is new.")
        await ctx.notify_tools_changed()
        server.remove_tool("test_new_tool")
        await ctx.notify_tools_changed()
        return "changed"

    @offer()
    async def test_trigger_prompt_change(ctx: Context[Any, Any]) -> str:
        """Changes the prompts there are."""
        server.prompt(name="test_new_prompt")(lambda: "new")
        await ctx.notify_prompts_changed()
        server.remove_prompt("test_new_prompt")
        await ctx.notify_prompts_changed()
        return "changed"

    @server.completion()
    async def complete(*_: object) -> Completion:  # pyright: ignore[reportUnusedFunction]
        return Completion(values=["paris", "park", "party"], total=3, has_more=False)


# Resources and prompts


def _add_resources(server: Anything) -> None:
    @server.resource("test://static-text", name="static text", description="A text.", mime_type="text/plain")
    def static_text() -> str:  # pyright: ignore[reportUnusedFunction]
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", name="static binary", description="An image.", mime_type="image/png")
    def static_binary() -> bytes:  # pyright: ignore[reportUnusedFunction]
        return PNG

    @server.resource("test://template/{id}/data", name="template", description="Any.", mime_type="application/json")
    def template(id: str) -> str:  # noqa: A002  # pyright: ignore[reportUnusedFunction]
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _add_prompts(server: Anything) -> None:
    @server.prompt(description="Says one thing.")
    def test_simple_prompt() -> str:  # pyright: ignore[reportUnusedFunction]
        return "This is a simple prompt for testing."

    @server.prompt(description="Says what it is given.")
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:  # pyright: ignore[reportUnusedFunction]
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="Shows a resource.")
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803  # pyright: ignore[reportUnusedFunction]
        resource = _resource(resourceUri, "text/plain", "Embedded resource content for testing.")
        return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]

    @server.prompt(description="Shows an image.")
    def test_prompt_with_image() -> list[UserMessage]:  # pyright: ignore[reportUnusedFunction]
        return [UserMessage(Image(data=PNG, format="png")), UserMessage("Please analyze the image above.")]

    @server.prompt(description="Asks for what it says.")
    def test_input_required_result_prompt(ctx: Context[Any, Any]) -> str | Asked:  # pyright: ignore[reportUnusedFunction]
        context = _answer(ctx, "user_context", "context")
        question = form("What context should the prompt use?", context="string")
        return f"Use {context}" if context else ask(user_context=question)
