"""HTTP as an executor needs it: bounded in time and size, never redirected, and its troubles told in our words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from ssl import SSLContext
from typing import Any

import httpx2
import msgspec

from coatcheck.errors import InvalidArgument
from coatcheck.executor import ExecutorUnavailable, JobRefused
from coatcheck.payload import encode

_CONNECT_SECONDS = 10.0
_CONNECTIONS = 100
_LATER = (408, 425, 429)
_NEVER = (501, 505)
_SHORTEST_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API answered: whatever it was, it was an answer."""

    status: int
    where: str
    content: bytes
    retry_after: float | None
    tag: str | None
    """Its `ETag`, if it can be sent back."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def said(self) -> Any:
        """Return the JSON in it.

        Raises:
            ExecutorUnavailable: It is none, as when something in between answers in the API's place.
        """
        try:
            return msgspec.json.decode(self.content)
        except msgspec.DecodeError as error:
            raise ExecutorUnavailable(f"{self.where} answered with something other than JSON") from error

    def said_or_nothing(self) -> Any:
        try:
            return self.said()
        except ExecutorUnavailable:
            return None


class Wire:
    """A client of one API, made when it is first used, and anew for another event loop."""

    def __init__(self, timeout: float, max_bytes: int, tls: SSLContext | None) -> None:
        if not 0.0 < timeout < float("inf"):
            raise InvalidArgument(f"timeout must be a positive number of seconds, but it is {timeout}.")
        if max_bytes < _SHORTEST_LIMIT:
            raise InvalidArgument(f"max_bytes must be at least {_SHORTEST_LIMIT}, but it is {max_bytes}.")
        self._timeout, self._max_bytes, self._tls = timeout, max_bytes, tls
        self._client: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client and self._loop is asyncio.get_running_loop():
            await client.aclose()

    async def ask(self, method: str, url: str, headers: Mapping[str, str], body: Any, wait: float) -> Answer:
        """Send one request, once; `wait`: for how many seconds it was asked to be held.

        Raises:
            ExecutorUnavailable: There is no answer, or it is to come again later.
            JobRefused: The answer is too large to be taken.
        """
        content = None if body is None else bytes(encode(body))
        request = self._here().build_request(
            method,
            url,
            # Not compressed, or a small answer could become a large one before it is counted.
            headers={**headers, "accept": "application/json", "accept-encoding": "identity"}
            | ({} if content is None else {"content-type": "application/json"}),
            content=content,
            timeout=httpx2.Timeout(
                self._timeout, connect=min(_CONNECT_SECONDS, self._timeout), read=self._timeout + wait
            ),
        )
        where = f"{method} {request.url.host}{request.url.path}"
        try:
            async with asyncio.timeout(wait + 10 * self._timeout):
                return await self._send(request, where)
        except TimeoutError as error:
            raise ExecutorUnavailable(f"{where} takes too long to answer") from error
        except httpx2.LocalProtocolError as error:  # whose words may show a header
            raise JobRefused(f"{where} cannot be sent with these headers") from error
        except httpx2.TransportError as error:
            raise ExecutorUnavailable(f"{where} was not answered ({_reason(error)})") from error

    async def _send(self, request: httpx2.Request, where: str) -> Answer:
        response = await self._here().send(request, stream=True, follow_redirects=False)
        try:
            retry_after = _seconds(response.headers.get("retry-after"))
            status = response.status_code
            if status in _LATER or (status >= 500 and status not in _NEVER):
                raise ExecutorUnavailable(f"{where} was answered with HTTP {status}", retry_after)
            if response.has_redirect_location:
                raise JobRefused(f"{where} is redirected, which is not followed; use the address it leads to")
            tag = response.headers.get("etag")
            content = await self._content(response, where)
            return Answer(status, where, content, retry_after, tag if tag and tag.isascii() else None)
        finally:
            await response.aclose()

    async def _content(self, response: httpx2.Response, where: str) -> bytes:
        content = bytearray()
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) > self._max_bytes:
                raise JobRefused(f"{where} was answered with more than {self._max_bytes} bytes, the most that is taken")
        return bytes(content)

    def _here(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=_CONNECTIONS, keepalive_expiry=30.0)
            self._client = httpx2.AsyncClient(verify=self._tls or True, limits=limits)
        return self._client


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises InvalidArgument if headers cannot be sent; their values are not shown."""
    for name, value in headers.items():
        if not name.isascii() or not value.isascii() or not name.isprintable() or not value.isprintable():
            raise InvalidArgument(f"The header {name!r} cannot be sent; use printable ASCII.")


def _seconds(said: str | None) -> float | None:
    """Return what `Retry-After` says, in seconds from now."""
    if not said:
        return None
    if said.isascii() and said.isdecimal():
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _reason(error: httpx2.TransportError) -> str:
    return str(error) or type(error).__name__
