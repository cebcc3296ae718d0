"""What a call returns: the tool's result, and what it means."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast

from jsonschema import Draft202012Validator, SchemaError
from jsonschema import ValidationError as SchemaViolation
from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType]
from mcp_types import CallToolResult, TextContent
from pydantic import TypeAdapter, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from coatcheck.client.tools import ToolInfo
from coatcheck.client.wire import Json
from coatcheck.errors import ProtocolViolation, ToolFailed
from coatcheck.payload import Payload, decode, encode

T = TypeVar("T")


class ToolResult(CallToolResult):
    """The SDK's result of a tool, with what one wants of it most."""

    @property
    def data(self) -> Any:
        """The structured content; a plain value that was wrapped to be an object is unwrapped. None: there is none."""
        content = cast("Json | None", self.structured_content)
        return content["result"] if content and content.keys() == {"result"} else content

    @property
    def text(self) -> str:
        """All text of it."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))


def read_result(raw: Json, tool: str, info: ToolInfo | None) -> ToolResult:
    """Read what a tool returned, and hold it against the tool's own schema.

    Raises:
        ProtocolViolation: It is no result of a tool, or not what this tool says it returns.
    """
    try:
        result = ToolResult.model_validate(raw, by_name=False)
    except ValidationError as error:
        message = f"Tool {tool!r} returned something that is no result: {_first(error)}"
        raise ProtocolViolation(message, raw) from error
    if info and info.output_schema and not result.is_error:
        _check(result, tool, info.output_schema)
    return result


def convert(result: ToolResult, tool: str, returns: type[T]) -> T:
    """Return the result as an instance of a type: from its structured content, or else from its text as JSON.

    Raises:
        ProtocolViolation: It does not fit.
    """
    adapter = TypeAdapter(returns)
    try:
        if result.structured_content is None:
            return adapter.validate_json(result.text)
        try:
            return adapter.validate_python(result.structured_content)
        except ValidationError:
            if result.data is result.structured_content:
                raise
            return adapter.validate_python(result.data)
    except ValidationError as error:
        message = f"The result of {tool!r} is no {returns}: {_first(error)}"
        raise ProtocolViolation(message, result) from error


def failure_of(result: ToolResult) -> ToolFailed:
    """Return a tool's own report of an error as an error."""
    return ToolFailed(result.text or "The tool failed", result=result)


def _check(result: ToolResult, tool: str, schema: Any) -> None:
    if result.structured_content is None:
        raise ProtocolViolation(f"Tool {tool!r} says what it returns, but returned no structured content", result)
    try:
        errors = _validator(bytes(encode(schema))).iter_errors(result.structured_content)  # pyright: ignore[reportUnknownMemberType]
        worst = cast("SchemaViolation | None", best_match(errors))
    except (SchemaError, Unresolvable) as error:
        raise ProtocolViolation(f"Tool {tool!r} has an output schema that is none: {error}", result) from error
    if worst:
        raise ProtocolViolation(f"Tool {tool!r} returned what its own schema forbids: {worst.message}", result)


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> Draft202012Validator:
    """Compile a schema; it takes much longer than to use it."""
    found: Any = decode(Payload(schema))
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found, registry=Registry())


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
