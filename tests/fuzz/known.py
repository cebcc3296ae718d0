"""What is known to be wrong: exactly that is let pass, so that the rest can be seen.

Each has a test in `test_known.py` that shows it, and that fails as soon as it is mended; then it leaves here too.
"""

from __future__ import annotations

import logging
import re
from typing import cast

from anyio import ClosedResourceError
from mcp.server.mcpserver.exceptions import UnexpectedToolError
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from tests.fuzz.asgi import Answer
from tests.fuzz.messages import Message

# The SDK's: a bare MCPServer does the same


def is_gone(message: Message, answer: Answer) -> bool:
    """A client that went before the end of its body is answered with a 500, which nobody reads."""
    return message.is_cut and answer.status in (0, 500) and not answer.is_late


def is_ended_session(message: Message, answer: Answer) -> bool:
    """What meets the end of its own session, in the generation that has sessions, gets a 500."""
    said = (b'"message":"Error handling POST request"', b'"message":"Session terminated before the request completed"')
    is_in_session = any(name == b"mcp-session-id" for name, _ in message.headers)
    return is_in_session and answer.status == 500 and any(text in answer.body for text in said)


def is_misspelt_name(message: Message, answer: Answer) -> bool:
    """A Mcp-Name in base64 that is not ASCII is too much for `decode_header_value`: a 500 for `tools/call`.

    For `tasks/*` it is an internal error, and ours to mend, as it is we who call that function.
    """
    name = dict(message.headers).get(b"mcp-name", b"")
    return (
        name.startswith(b"=?base64?")
        and not name.isascii()
        and (is_not_ascii(answer.raised) or b'"message":"Internal server error"' in answer.body)
    )


def is_not_ascii(error: BaseException | None) -> bool:
    return isinstance(error, ValueError) and "only ASCII" in str(error)


_GONE = re.compile(r"(ClientDisconnect|ClosedResourceError)\s*(\+-+\s*)?$")
_NOT_ASCII = re.compile(r"should contain only ASCII characters\s*$")
_STATE_OF_A_NOTIFICATION = re.compile(r"notification handler for 'tools/call' raised.*requestState\s*$", re.DOTALL)
"""On stdio, a `tools/call` without an id and with a bad `requestState` is logged as a fault of the server."""


_UNREADABLE = re.compile(
    r"crashed in task.*(\.ValidationError: |Received an accepted elicitation).*\.UnexpectedToolError: .*$", re.DOTALL
)

_KNOWN_ENTRIES = (_GONE, _STATE_OF_A_NOTIFICATION, _NOT_ASCII, _UNREADABLE)


def is_unreadable_answer(error: BaseException | None) -> bool:
    """What is no answer by the SDK's own rules makes a tool crash, in a plain call as in a task."""
    cause = error.__cause__ if isinstance(error, UnexpectedToolError) else None
    is_misfit = isinstance(cause, ValueError) and "Received an accepted elicitation" in str(cause)
    return isinstance(cause, ValidationError) or is_misfit


# Ours, and left out of what is sent until it is mended


def is_known(message: Message, answer: Answer) -> bool:
    """Whether an answer is wrong in a way we know."""
    faults = (is_gone, is_ended_session, is_misspelt_name)
    return any(fault(message, answer) for fault in faults)


def is_known_error(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    is_gone = isinstance(error, ClientDisconnect | ClosedResourceError)
    return is_gone or is_not_ascii(error) or is_unreadable_answer(error)


def is_known_difference(message: Message, expected: Answer, got: Answer) -> bool:
    # How deep is too deep depends on how deep the stack is already, so there the two may differ.
    return any(b"recursion depth" in answer.body for answer in (expected, got))


def unknown_errors(said: bytes) -> list[str]:
    """Return what a process logged as an error, or let out as a traceback, but for what we know."""
    entries = re.split(r"^(?=\d\d:\d\d:\d\d [A-Z]+ +\S+: )", said.decode(errors="replace"), flags=re.MULTILINE)
    wrong = [entry for entry in entries if "Traceback" in entry or re.match(r"\S+ (ERROR|CRITICAL)", entry)]
    return [entry for entry in wrong if not any(known.search(entry) for known in _KNOWN_ENTRIES)]
