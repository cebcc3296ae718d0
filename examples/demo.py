"""Watch a task outlive its server: a real server process, a real client, and a SIGKILL in between.

The server is `examples/server.py`, the client `examples/client.py`; this program starts, looks on, and kills.
"""

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from client import Task, TasksClient, Ticket, Watch, cancel, collect
from httpx2 import TransportError
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

SERVER = Path(__file__).with_name("server.py")
CITIES = ["Accra", "Bergen", "Cusco", "Delhi", "Edmonton", "Fez"]
console = Console(highlight=False)


class Server:
    """`coatcheck serve` as a process: one store and one address, however often it is started."""

    def __init__(self, folder: Path) -> None:
        self._store, self._port = f"sqlite:///{folder}/tasks.db", 0
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self.log: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp"

    async def start(self) -> int:
        """Start it, wait until it says where it listens, return its process id."""
        where = ("--http", f"127.0.0.1:{self._port}", "--store", self._store)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "coatcheck", "serve", f"{SERVER}:server", *where, stderr=PIPE
        )
        assert self._process.stderr
        while not (found := re.search(rb"endpoint +http://[^:]+:(\d+)", await self._process.stderr.readline())):
            expect(self._process.returncode is None)
        self._port = int(found[1])
        self._reading = asyncio.create_task(self._read(self._process.stderr))
        return self._process.pid

    def kill(self) -> None:
        if self._process and self._process.returncode is None:
            self._process.kill()

    async def ended(self) -> None:
        if self._process and self._reading:
            await self._process.wait()
            await self._reading

    async def _read(self, stderr: asyncio.StreamReader) -> None:
        async for line in stderr:
            self.log.append(line.decode().strip())


@asynccontextmanager
async def connected(server: Server, watch: Watch = lambda task: None) -> AsyncGenerator[Client]:
    async with Client(
        server.url, mode="2026-07-28", extensions=[TasksClient(watch)], elicitation_callback=approve
    ) as client:
        yield client


async def approve(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    say(f"[yellow]the server asks[/]  {params.message}")
    say("[yellow]we answer[/]        yes, all tests are green")
    return ElicitResult(action="accept", content={"approved": True, "comment": "all tests are green"})


class Bar:
    """A progress bar that is told of a task."""

    def __init__(self) -> None:
        columns = (TextColumn("   "), BarColumn(40), TaskProgressColumn(), TextColumn("{task.description}"))
        self._progress = Progress(*columns, console=console)
        self._line = self._progress.add_task("", total=None)

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def show(self, task: Task) -> int:
        """Show how far the task is, and return it. This generation of tasks has its progress in the message."""
        found = re.search(r"\((\d+) of (\d+)\)", task.status_message)
        done, total = (int(found[1]), int(found[2])) if found else (0, None)
        if task.status == "completed":
            self._progress.update(self._line, completed=1, total=1, description=task.status_message)
        elif total:
            self._progress.update(self._line, completed=done, total=total, description=task.status_message)
        return done


async def progress(server: Server) -> None:
    title("1", "A tool that takes its time is a task; whoever waits sees how far it is")
    with Bar() as bar:
        async with connected(server, bar.show) as client:
            result = await client.call_tool("report", {"pages": 5})
    say(f"result: {text(result)}")
    expect(text(result) == "A report of 5 pages")


async def question(server: Server) -> None:
    title("2", "A tool may ask; the question waits with the task, for days if need be")
    async with connected(server) as client:
        result = await client.call_tool("deploy", {"version": "2.1"})
    say(f"result: {text(result)}")
    expect(text(result) == "2.1 is live: all tests are green")


async def cancelling(server: Server) -> None:
    title("3", "A task can be cancelled")
    async with connected(server) as client:
        ticket = await hand_in(client, "primes", {"below": 1_000_000_000})
        await cancel(client.session, ticket)
        try:
            await collect(client.session, ticket)
        except MCPError as error:
            say(f"result: none. {error.message}")
            expect(error.message == "Cancelled by its caller")
        else:
            expect(False)


async def survival(server: Server, first: int) -> None:
    title("4", "A task outlives its server")
    async with connected(server) as client:
        ticket = await hand_in(client, "measure", {"cities": CITIES})
    await kill_half_way(server, ticket)
    say(f"[red]kill -9 {first}[/]     the server is gone in the middle of the work")
    second = await server.start()
    say(f"[green]coatcheck serve[/]  process {second} on the same store; the client has nothing but the ticket")
    with Bar() as bar:
        async with connected(server) as client:
            result = await collect(client.session, ticket, bar.show)
    conclude(text(result), server.log, first, second)


async def kill_half_way(server: Server, ticket: str) -> None:
    is_cut_off = False
    try:
        with Bar() as bar:

            def watch(task: Task) -> None:
                if bar.show(task) >= len(CITIES) // 2:
                    server.kill()

            async with connected(server) as client:
                await collect(client.session, ticket, watch)
    except* (TransportError, MCPError):
        is_cut_off = True
    await server.ended()
    expect(is_cut_off)


def conclude(rows: list[dict[str, Any]], log: list[str], first: int, second: int) -> None:
    times = Counter(re.findall(r"tutorial: measured (\w+)", "\n".join(log)))
    for row in rows:
        count = times[row["city"]]
        say(f"  {row['city']:<10}{row['celsius']:>3} °C   measured {count} time, by process {row['process']}")
    expect([row["city"] for row in rows] == CITIES)
    expect({row["process"] for row in rows} == {first, second})
    expect(times == Counter(CITIES))
    say("[bold green]No step was done twice, none was lost.[/]")


async def hand_in(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    """Call a tool and return the ticket, instead of waiting for the result."""
    ticket = await client.session.call_tool(tool, arguments, allow_claimed=True)
    assert isinstance(ticket, Ticket)
    say(f"ticket: {ticket.task_id}")
    return ticket.task_id


def text(result: CallToolResult) -> Any:
    content: dict[str, Any] = result.structured_content or {}
    return content.get("result")


def title(number: str, sentence: str) -> None:
    console.print(f"\n [bold]{number:<3}{sentence}[/]", soft_wrap=True)


def say(line: str) -> None:
    console.print(f"    {line}", soft_wrap=True)


def expect(is_so: bool) -> None:
    if not is_so:
        sys.exit("This is not what was promised.")


async def demo(folder: Path) -> None:
    server = Server(folder)
    this = asyncio.current_task()
    assert this
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    try:
        async with asyncio.timeout(60):
            pid = await server.start()
            title("", f"[green]coatcheck serve examples/server.py:server[/]  process {pid}, at {server.url}")
            await progress(server)
            await question(server)
            await cancelling(server)
            await survival(server, first=pid)
    finally:
        server.kill()
        await server.ended()
    console.print()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(demo(Path(folder)))
