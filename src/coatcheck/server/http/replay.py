"""Looking at a request's body and passing it on as if nobody had."""

from __future__ import annotations

from starlette.types import Message, Receive


async def read_body(receive: Receive, most: int) -> list[Message]:
    """Return the messages of a request's body: all of them, or the first with more than `most` bytes."""
    messages: list[Message] = []
    size = 0
    while True:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False) or size > most:
            return messages


def replay(messages: list[Message], receive: Receive) -> Receive:
    """Return a `receive` that gives these messages first."""
    left = iter(messages)

    async def again() -> Message:
        for message in left:
            return message
        return await receive()

    return again
