"""What the SDK answers, put aside until it is clear whose the answer is."""

from __future__ import annotations

from starlette.types import Message, Send

_PING = b": ping\r\n\r\n"


class Answer:
    """One answer: the SDK's, or a stream that is kept open here."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._aside: list[Message] = []
        self._is_open = False
        self._is_begun = False
        self._is_stream = False
        self.is_unfinished = True

    async def __call__(self, message: Message) -> None:
        if not self._is_open:
            self._aside.append(message)
        elif message["type"] != "http.response.start" or not self._is_begun:
            await self._send(message)

    async def let_through(self) -> None:
        """From now on the SDK answers."""
        self._is_open = True
        aside, self._aside = self._aside, []
        for message in aside:
            await self(message)

    async def open_stream(self) -> None:
        """Send the head of the SDK's answer, if that is a stream; a JSON answer has none before it is whole."""
        head = self._aside[0]
        self._head, self._aside, self._is_open = head, [], True
        self._is_stream = (b"content-type", b"text/event-stream") in [
            (name.lower(), value.partition(b";")[0]) for name, value in head["headers"]
        ]
        if self._is_stream:
            self._is_begun = True
            await self._send(head)

    async def ping(self) -> None:
        if self._is_stream:
            await self._send({"type": "http.response.body", "body": _PING, "more_body": True})

    async def finish(self, body: bytes) -> None:
        self.is_unfinished = False
        if self._is_stream:
            body = b"event: message\r\ndata: " + body + b"\r\n\r\n"
        else:
            kept = [(name, value) for name, value in self._head["headers"] if name.lower() != b"content-length"]
            headers = [*kept, (b"content-length", b"%d" % len(body))]
            await self._send({**self._head, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})
