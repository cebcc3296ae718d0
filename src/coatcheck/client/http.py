"""HTTP that does not break: what goes wrong with a request is told as its answer, and the session lives on."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import httpx2
import msgspec
from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND

logger = logging.getLogger("coatcheck")

_CONNECT_SECONDS = 15.0
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in
      (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)) if hasattr(socket, name)),
]  # fmt: skip
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
_RETRIES = 40
_LATER = (429, 502, 503, 504)
"""What says that there is no server just now, or none that has time."""
TICKET = "x-coatcheck-request"
"""A header that names a request between us and our transport; it does not leave the house."""
_SESSION = "mcp-session-id"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a request has no answer of the server's."""

    reason: str
    was_sent: bool = True
    """Whether the server may have carried it out."""
    status: int | None = None
    """What HTTP had to say."""

    @property
    def is_refusal(self) -> bool:
        return self.status in (401, 403)

    @property
    def is_fault(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.status is None or self.status in _LATER


@dataclass(slots=True)
class Troubles:
    """What went wrong with the requests of one connection, by their tickets."""

    of: dict[str, Trouble] = field(default_factory=dict[str, Trouble])
    last_words: Callable[[], str] = lambda: ""
    """What the server said when it ended, if it is a process of ours."""
    session_id: str | None = None
    """The session the server has for us, if it has any."""
    hears: Callable[[str], None] | None = None
    """Told of every line such a process writes to its stderr."""


def http_client(troubles: Troubles, headers: Mapping[str, str], auth: httpx2.Auth | None) -> httpx2.AsyncClient:
    """Return a client for one server. It waits for answers as long as they take; a dead peer is noticed by TCP."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    inner = httpx2.AsyncHTTPTransport(verify=tls_context(), limits=limits, socket_options=_KEEPALIVE)
    transport = _Telling(inner, troubles)
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None, pool=None)
    return httpx2.AsyncClient(transport=transport, headers=headers, auth=auth, timeout=timeout)


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Return the one context for all connections: it takes long to make, and a megabyte to keep."""
    return httpx2.create_ssl_context()


class _Sent(msgspec.Struct):
    """What has to be known of a JSON-RPC message."""

    id: int | str | None = None
    method: str | None = None


class _Error(msgspec.Struct):
    code: int
    message: str = ""


class _Answer(msgspec.Struct):
    error: _Error


_read_sent = msgspec.json.Decoder(_Sent).decode
_read_answer = msgspec.json.Decoder(_Answer).decode


class _Telling(httpx2.AsyncBaseTransport):
    """A transport that answers with an error of JSON-RPC where others raise one of their own."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, troubles: Troubles) -> None:
        self._inner, self._troubles = inner, troubles

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        match request.method:
            case "POST":
                sent = _message(await request.aread())
                if sent.id is not None and sent.method is not None:
                    return await self._ask(request, sent.id)
                return await self._insist(request)
            case "GET":
                return await self._insist(request)
            case _:  # a farewell
                try:
                    return await self._inner.handle_async_request(request)
                except httpx2.TransportError:
                    return httpx2.Response(204)

    async def _ask(self, request: httpx2.Request, request_id: int | str) -> httpx2.Response:
        """Send a request once: whether it may be sent again, those know who sent it."""
        ticket: str = request.headers.pop(TICKET, "")
        self._troubles.of.pop(ticket, None)
        try:
            response = await self._inner.handle_async_request(request)
            request.headers[TICKET] = ticket  # if it is redirected, another will be made of it
            self._troubles.session_id = response.headers.get(_SESSION) or self._troubles.session_id
            if not _is_stream(response):
                await response.aread()  # what breaks, breaks here
        except httpx2.TransportError as error:
            never_sent = isinstance(error, _NEVER_SENT)
            trouble = Trouble(_reason(error, request), was_sent=not never_sent)
            self._troubles.of[ticket] = trouble
            return _told(request_id, trouble)
        if response.status_code >= 400:
            await response.aread()
            if trouble := trouble_of(response.status_code, response.reason_phrase, response.content):
                self._troubles.of[ticket] = trouble
        return response

    async def _insist(self, request: httpx2.Request) -> httpx2.Response:
        """Send what has no answer, but should arrive: answers to the server's questions, and its standing stream."""
        for attempt in range(_RETRIES):
            try:
                response = await self._inner.handle_async_request(request)
                if response.status_code not in _LATER:
                    return response
                await response.aclose()
            except httpx2.TransportError as error:
                logger.debug("Trying again: %s", _reason(error, request))
            await asyncio.sleep(pause(attempt))
        return httpx2.Response(503)


def pause(attempt: int) -> float:
    """Return how long to wait before trying again, in seconds: longer each time, and not all at once."""
    return min(0.05 * 2 ** min(attempt, 10), 5.0) * random.uniform(0.5, 1.0)


def _message(body: bytes) -> _Sent:
    try:
        return _read_sent(body)
    except msgspec.MsgspecError:
        return _Sent()


def _is_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("text/event-stream")


def _told(request_id: int | str, trouble: Trouble) -> httpx2.Response:
    error = {"code": CONNECTION_CLOSED, "message": trouble.reason}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error})
    return httpx2.Response(503, headers={"content-type": "application/json"}, content=body)


def trouble_of(status: int, reason_phrase: str, content: bytes) -> Trouble | None:
    """Return what is wrong with an answer, unless the server itself says so in the protocol's words."""
    phrase = f"HTTP {status} {reason_phrase}".rstrip()
    try:
        error = _read_answer(content).error
    except msgspec.MsgspecError:
        return Trouble(phrase, was_sent=status in (502, 504), status=status)
    trouble = Trouble(f"{phrase}: {error.message}", was_sent=False, status=status)
    is_session = error.code != METHOD_NOT_FOUND and "session" in error.message.lower()
    return trouble if trouble.is_refusal or is_session else None


def _reason(error: httpx2.TransportError, request: httpx2.Request) -> str:
    where = f"{request.url.host}:{request.url.port or (443 if request.url.scheme == 'https' else 80)}"
    said = str(error)
    match error:
        case httpx2.ConnectTimeout():
            return f"{where} does not answer"
        case httpx2.ConnectError() if "SSL" in said.upper() or "CERTIFICATE" in said.upper():
            return f"no secure connection to {where} ({without_numbers(said)})"
        case httpx2.ConnectError() if "Name or service" in said or "nodename" in said or "resolution" in said:
            return f"there is no host {request.url.host!r}"
        case httpx2.ConnectError() if "refused" in said or "attempts failed" in said:
            return f"{where} refuses connections"
        case httpx2.ConnectError():
            return f"{where} cannot be reached ({said})"
        case httpx2.LocalProtocolError():  # whose words may show a header
            return f"nothing can be sent to {where} with these headers"
        case _:
            return f"the connection to {where} broke{f' ({said})' if said else ''}"


def without_numbers(said: str) -> str:
    """Leave out where in OpenSSL's sources it was said."""
    return said.rpartition("] ")[2].partition(" (_ssl")[0]
