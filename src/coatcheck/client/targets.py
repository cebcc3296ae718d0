"""Where a server is: a URL, a command, an entry of `mcpServers`, or an object in this process."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol, TextIO, cast

import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.memory import create_client_server_memory_streams

from coatcheck.client.http import Troubles, http_client
from coatcheck.client.lean_http import LeanHTTP, is_reachable_directly
from coatcheck.errors import CannotConnect, InvalidArgument

Streams = tuple[Any, Any]
Targetable = str | Sequence[str] | Mapping[str, Any] | StdioServerParameters | MCPServer[Any] | Server[Any]
_LAST_WORDS = 2000
_LONGEST_LINE = 65536
_FAREWELL_SECONDS = 0.5


class Target(Protocol):
    @property
    def label(self) -> str:
        """What to call it towards people; nothing secret."""
        ...

    @property
    def spec(self) -> Mapping[str, Any] | None:
        """How to find it again, from another process; nothing secret. None: it ends with this process."""
        ...

    def open(self, troubles: Troubles) -> AbstractAsyncContextManager[Streams]:
        """Connect. What goes wrong with requests is put into `troubles`."""
        ...

    def lean(self) -> LeanHTTP | None:
        """Return a shorter way for requests, if there is one."""
        ...


def target_of(given: Targetable, headers: Mapping[str, str] | None, auth: str | httpx2.Auth | None) -> Target:
    """Understand what someone calls a server.

    Raises:
        InvalidArgument: It is none of what can be understood.
    """
    match given:
        case str() if given.startswith(("http://", "https://")):
            return Endpoint(given, headers, auth)
        case str() if "://" in (given.split() or [""])[0]:
            raise InvalidArgument(f"{given!r} is no URL of an MCP server; those begin with http:// or https://.")
        case str() if given.strip():
            return Command(_split(given))
        case StdioServerParameters():
            return Command([given.command, *given.args], given.env, given.cwd)
        case MCPServer() | Server():
            return InMemory(cast("MCPServer[Any]", given))
        case Mapping():
            return _entry(given, headers, auth)
        case [str(), *_]:
            return Command(list(given))
        case _:
            raise InvalidArgument("A server is a URL, a command, an entry of mcpServers, or a server object.")


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise InvalidArgument(f"{line!r} is no command line: {error}.") from None


def _entry(entry: Mapping[str, Any], headers: Mapping[str, str] | None, auth: str | httpx2.Auth | None) -> Target:
    match entry:
        case {"url": str(url)}:
            if not url.startswith(("http://", "https://")):  # which is not shown: it may have a secret in it
                raise InvalidArgument("Its 'url' is no URL of an MCP server; those begin with http:// or https://.")
            return Endpoint(url, {**(entry.get("headers") or {}), **(headers or {})}, auth)
        case {"command": str(command)}:
            args: Sequence[str] = entry.get("args") or ()
            return Command([command, *args], entry.get("env"), entry.get("cwd"))
        case _:
            raise InvalidArgument('An entry of mcpServers has a "url", or a "command" and its "args".')


class Endpoint:
    """Streamable HTTP."""

    def __init__(self, url: str, headers: Mapping[str, str] | None, auth: str | httpx2.Auth | None) -> None:
        try:
            parsed = httpx2.URL(url)
        except httpx2.InvalidURL:
            raise InvalidArgument("That is no URL; write http://host:port/path.") from None
        if not parsed.host:
            raise InvalidArgument("The URL names no host; write http://host:port/path.")
        self._url = url
        self._headers = dict(headers or {})
        if isinstance(auth, str):
            self._headers["Authorization"] = f"Bearer {auth}"
        self._auth = auth if isinstance(auth, httpx2.Auth) else None
        self.label = str(parsed.copy_with(userinfo=b"", query=None))
        self.spec = {"url": str(parsed.copy_with(userinfo=b""))}

    def lean(self) -> LeanHTTP | None:
        is_plain = self._auth is None and is_reachable_directly(self._url)
        return LeanHTTP(self._url, self._headers) if is_plain else None

    @asynccontextmanager
    async def open(self, troubles: Troubles) -> AsyncGenerator[Streams]:
        async with (
            http_client(troubles, self._headers, self._auth) as http,
            streamable_http_client(self._url, http_client=http) as streams,
        ):
            yield streams


class Command:
    """A process of our own, over its stdin and stdout."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | os.PathLike[str] | None = None
    ) -> None:
        self._command, self._env = list(command), dict(env) if env else None
        self._cwd = os.path.abspath(cwd) if cwd else os.getcwd()
        self.label = os.path.basename(command[0])
        self.spec = {"command": command[0], "args": list(command[1:]), "cwd": self._cwd}

    def lean(self) -> None:
        return None

    @asynccontextmanager
    async def open(self, troubles: Troubles) -> AsyncGenerator[Streams]:
        executable, *args = self._command
        if not self._is_there(executable):
            raise CannotConnect(f"There is no command {executable!r}; is it installed, and on the PATH?")
        parameters = StdioServerParameters(command=executable, args=args, env=self._env, cwd=self._cwd)
        async with _stderr_of(troubles) as stderr, stdio_client(parameters, errlog=stderr) as streams:
            yield streams

    def _is_there(self, executable: str) -> bool:
        if os.path.dirname(executable):  # as seen from where it will run
            return os.access(os.path.join(self._cwd, executable), os.X_OK)
        return shutil.which(executable, path=self._env.get("PATH") if self._env else None) is not None


@asynccontextmanager
async def _stderr_of(troubles: Troubles) -> AsyncGenerator[TextIO]:
    """Give what a process may write its stderr to: kept for its last words, or heard line by line."""
    if troubles.hears:
        async with _heard(troubles, troubles.hears) as stderr:
            yield stderr
        return
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        troubles.last_words = lambda: _tail(said.fileno())
        try:
            yield said
        finally:
            words = _tail(said.fileno())
            troubles.last_words = lambda: words


@asynccontextmanager
async def _heard(troubles: Troubles, hears: Callable[[str], None]) -> AsyncGenerator[TextIO]:
    last: list[str] = []
    troubles.last_words = lambda: last[-1] if last else ""
    reading, writing = os.pipe()
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )

    async def listen() -> None:
        while line := await _line(reader):
            if said := line.decode(errors="replace").strip():
                last[:] = [said]
                hears(said)

    listening = asyncio.create_task(listen())
    try:
        with os.fdopen(writing, "w") as stderr:
            yield stderr
        with suppress(TimeoutError):  # what the process started in its turn may hold the other end for long
            await asyncio.wait_for(asyncio.shield(listening), _FAREWELL_SECONDS)
    finally:
        listening.cancel()
        transport.close()


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line, or as much of it as anyone wants to read at once."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        return await reader.read(error.consumed)


def _tail(descriptor: int) -> str:
    """Return the last line a process wrote to its stderr, which may say why it ended."""
    length = os.fstat(descriptor).st_size
    lines = os.pread(descriptor, _LAST_WORDS, max(0, length - _LAST_WORDS)).decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


class InMemory:
    """A server of this process, without a transport; it lives as long as the connection."""

    def __init__(self, server: MCPServer[Any] | Server[Any]) -> None:
        self._server = server
        self.label, self.spec = server.name, None

    def lean(self) -> None:
        return None

    @asynccontextmanager
    async def open(self, troubles: Troubles) -> AsyncGenerator[Streams]:
        # The SDK's own client takes the same way in.
        core: Server[Any] = getattr(self._server, "_lowlevel_server", cast("Server[Any]", self._server))
        async with create_client_server_memory_streams() as (ours, theirs):
            serving = asyncio.create_task(core.run(*theirs, core.create_initialization_options()))
            try:
                yield ours
            finally:
                await ours[1].aclose()
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
