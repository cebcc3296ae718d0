"""A client of a server in another process, over real HTTP: a session, a token, and streams that break off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import httpx2

from tests.races.wire import PATIENCE, Client, Json, Kind, Question

_STREAM = "text/event-stream"


class Remote(Client):
    def __init__(self, kind: Kind, url: str, http: httpx2.AsyncClient, token: str | None) -> None:
        super().__init__(kind)
        self._url, self._http = url, http
        self._headers = {
            "accept": f"application/json, {_STREAM}",
            "mcp-protocol-version": kind.version,
            **({"authorization": f"Bearer {token}"} if token else {}),
        }
        self._under_way: set[asyncio.Task[None]] = set()
        self._asked = asyncio.Event()

    async def send(self, message: Json) -> None:
        if "method" in message and "id" in message:
            posting = asyncio.create_task(self._post(message))
            self._under_way.add(posting)
            posting.add_done_callback(self._under_way.discard)
        else:
            await self._post(message)

    async def question(self) -> Question:
        """Return the question that is put to this client, once it is."""
        async with asyncio.timeout(PATIENCE):
            await self._asked.wait()
        (question,) = self.open_questions
        return question

    def take(self, message: Json, stream: object) -> None:
        super().take(message, stream)
        if self.questions:
            self._asked.set()

    async def leave(self) -> None:
        for posting in self._under_way:
            posting.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _post(self, message: Json) -> None:
        number = message.get("id")
        with suppress(httpx2.RemoteProtocolError, httpx2.ReadError):  # its server was killed
            async with self._http.stream("POST", self._url, json=message, headers=self._headers) as response:
                response.raise_for_status()
                if session := response.headers.get("mcp-session-id"):
                    self._headers["mcp-session-id"] = session
                if response.headers.get("content-type", "").startswith(_STREAM):
                    async for line in response.aiter_lines():
                        if line.startswith("data:") and (data := line.removeprefix("data:").strip()):
                            self.take(json.loads(data), number)
                elif body := await response.aread():
                    self.take(json.loads(body), number)


@asynccontextmanager
async def remote(url: str, kind: Kind, token: str | None = None) -> AsyncGenerator[Remote]:
    """Begin a session of its own."""
    async with httpx2.AsyncClient(timeout=PATIENCE) as http:
        client = Remote(kind, url, http, token)
        await client.greet()
        try:
            yield client
        finally:
            await client.leave()
