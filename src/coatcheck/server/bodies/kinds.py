"""What a task can be of: a tool, a resource or a prompt; how each is run, and its result kept and read again."""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, UnexpectedResourceError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    GetPromptResult,
    InputRequiredResult,
    ReadResourceResult,
    TextResourceContents,
)
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from coatcheck.dialects.words import INTERNAL_ERROR, INVALID_PARAMS
from coatcheck.payload import Payload, encode
from coatcheck.tool import Outcome

logger = logging.getLogger("coatcheck")

Result = TypeVar("Result")
SDKContext = Context[Any, Any]
RESOURCE_PREFIX, PROMPT_PREFIX = "resource:", "prompt:"
"""What the rows of resources and prompts have before the component's name; those of tools have nothing."""


class Kind(Protocol, Generic[Result]):
    """One kind of component."""

    word: str

    async def run(
        self, server: MCPServer[Any], name: str, arguments: Mapping[str, Any], context: SDKContext | None
    ) -> Result | InputRequiredResult: ...

    def write(self, result: Result, arguments: Mapping[str, Any]) -> Outcome:
        """Return the result of a call with these arguments as it is kept."""
        ...

    def read(self, kept: Payload) -> Result: ...


class ToolKind:
    word = "tool"

    async def run(
        self, server: MCPServer[Any], name: str, arguments: Mapping[str, Any], context: SDKContext | None
    ) -> CallToolResult | InputRequiredResult:
        return await server.call_tool(name, dict(arguments), context)

    def write(self, result: CallToolResult, arguments: Mapping[str, Any]) -> Outcome:
        return Outcome(write_model(result), is_error=result.is_error)

    def read(self, kept: Payload) -> CallToolResult:
        return CallToolResult.model_validate_json(bytes(kept), by_name=False)


class ResourceKind:
    word = "resource"

    async def run(
        self, server: MCPServer[Any], name: str, arguments: Mapping[str, Any], context: SDKContext | None
    ) -> list[ReadResourceContents] | InputRequiredResult:
        """Read a resource; what goes wrong is an error of the protocol, with the code the SDK gives it."""
        uri = str(arguments["uri"])
        try:
            found = await server.read_resource(uri, context)
        except ResourceError as error:
            if isinstance(error, UnexpectedResourceError):
                logger.error("Resource %r crashed", uri, exc_info=error)
            code = INVALID_PARAMS if isinstance(error, ResourceNotFoundError) else INTERNAL_ERROR
            raise MCPError(code, str(error), {"uri": uri}) from error
        return found if isinstance(found, InputRequiredResult) else list(found)

    def write(self, result: list[ReadResourceContents], arguments: Mapping[str, Any]) -> Outcome:
        uri = str(arguments["uri"])
        return Outcome(write_model(ReadResourceResult(contents=[_content(uri, item) for item in result])))

    def read(self, kept: Payload) -> list[ReadResourceContents]:
        found = ReadResourceResult.model_validate_json(bytes(kept), by_name=False)
        return [
            ReadResourceContents(
                content=item.text if isinstance(item, TextResourceContents) else base64.b64decode(item.blob),
                mime_type=item.mime_type,
                meta=item.meta,
            )
            for item in found.contents
        ]


class PromptKind:
    word = "prompt"

    async def run(
        self, server: MCPServer[Any], name: str, arguments: Mapping[str, Any], context: SDKContext | None
    ) -> GetPromptResult | InputRequiredResult:
        try:
            return await server.get_prompt(name.removeprefix(PROMPT_PREFIX), dict(arguments), context)
        except ValueError as error:
            logger.error("Prompt %r crashed", name, exc_info=error)
            raise MCPError(INTERNAL_ERROR, f"Error rendering {name.replace(':', ' ', 1)}") from error

    def write(self, result: GetPromptResult, arguments: Mapping[str, Any]) -> Outcome:
        return Outcome(write_model(result))

    def read(self, kept: Payload) -> GetPromptResult:
        return GetPromptResult.model_validate_json(bytes(kept), by_name=False)


TOOL, RESOURCE, PROMPT = ToolKind(), ResourceKind(), PromptKind()


def kind_of(row: str) -> Kind[Any]:
    """Return what the row of this name is of."""
    if row.startswith(RESOURCE_PREFIX):
        return RESOURCE
    return PROMPT if row.startswith(PROMPT_PREFIX) else TOOL


def write_model(result: BaseModel) -> Payload:
    """Encode a result as it is kept: without the fields by which one protocol generation frames it."""
    frame = {"result_type", "ttl_ms", "cache_scope"}
    try:
        return Payload(result.model_dump_json(by_alias=True, exclude_none=True, exclude=frame).encode())
    except PydanticSerializationError:  # half a surrogate pair, which a plain call would have carried
        return encode(result.model_dump(by_alias=True, exclude_none=True, exclude=frame))


def _content(uri: str, item: ReadResourceContents) -> TextResourceContents | BlobResourceContents:
    mime = item.mime_type
    if isinstance(item.content, bytes):
        blob = base64.b64encode(item.content).decode()
        return BlobResourceContents(uri=uri, blob=blob, mime_type=mime or "application/octet-stream", _meta=item.meta)
    return TextResourceContents(uri=uri, text=item.content, mime_type=mime or "text/plain", _meta=item.meta)
