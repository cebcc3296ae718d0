"""Watch a task outlive its server: a real server process, a real client, and a SIGKILL in between.

The server is `examples/server.py`, the client `coatcheck.Client`; this program starts, looks on, and kills.
"""

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from coatcheck import Client, Snapshot
from coatcheck.errors import TaskCancelled

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

    def show(self, task: Snapshot) -> int:
        """Show how far the task is, and return it."""
        done, total = (int(task.progress.done), task.progress.total) if task.progress else (0, None)
        if task.is_terminal:
            self._progress.update(self._line, completed=1, total=1, description=task.message or "")
        elif total:
            self._progress.update(self._line, completed=done, total=total, description=task.message or "")
        return done


async def progress(client: Client) -> None:
    title("1", "A tool that takes its time is a task; whoever waits sees how far it is")
    with Bar() as bar:
        result = await client.call("report", {"pages": 5}, on_change=bar.show)
    say(f"result: {result.data}")
    expect(result.data == "A report of 5 pages")


async def question(client: Client) -> None:
    title("2", "A tool may ask; the question waits with the task, for days if need be")
    result = await client.call("deploy", {"version": "2.1"})
    say(f"result: {result.data}")
    expect(result.data == "2.1 is live: all tests are green")


async def cancelling(client: Client) -> None:
    title("3", "A task can be cancelled")
    handle = await client.start("primes", {"below": 1_000_000_000})
    say(f"ticket: {handle.id}")
    await handle.cancel()
    try:
        await handle
    except TaskCancelled as error:
        say(f"result: none. {error}")
    else:
        expect(False)


async def survival(client: Client, server: Server, first: int) -> None:
    title("4", "A task outlives its server, and whoever waits for it does not notice")
    handle = await client.start("measure", {"cities": CITIES})
    say(f"ticket: {handle.id}")
    second = 0
    with Bar() as bar:
        async for task in handle.events():
            if bar.show(task) >= len(CITIES) // 2 and not second:
                server.kill()
                await server.ended()
                say(f"[red]kill -9 {first}[/]     the server is gone in the middle of the work")
                second = await server.start()
                say(f"[green]coatcheck serve[/]  process {second} on the same store; the client goes on waiting")
    conclude((await handle).data, server.log, first, second)


def conclude(rows: list[dict[str, Any]], log: list[str], first: int, second: int) -> None:
    times = Counter(re.findall(r"tutorial: measured (\w+)", "\n".join(log)))
    for row in rows:
        count = times[row["city"]]
        say(f"  {row['city']:<10}{row['celsius']:>3} °C   measured {count} time, by process {row['process']}")
    expect([row["city"] for row in rows] == CITIES)
    expect({row["process"] for row in rows} == {first, second})
    expect(times == Counter(CITIES))
    say("[bold green]No step was done twice, none was lost.[/]")


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
            async with Client(server.url, elicitation_callback=approve, ledger=folder / "ledger") as client:
                await progress(client)
                await question(client)
                await cancelling(client)
                await survival(client, server, first=pid)
    finally:
        server.kill()
        await server.ended()
    console.print()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(demo(Path(folder)))
