"""The command line of the load generator."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

_DESCRIPTION = """\
Put load on a server of the tasks extension and report what it took.

Every measurement runs --repeat times; the report gives the median, the smallest and the largest value of each metric.
With --pid it also has the processor time and the resident memory of the server, which on a busy machine say more than
the clock does, and foreign_cpu, the cores that other programs used meanwhile: a run with more than --quiet of it does
not count and is done again, up to --attempts runs in all. --json FILE appends the result.
"""
_EXAMPLES = """\
examples:
  python -m benchmarks.load roundtrip --tool noop -n 200
  python -m benchmarks.load poll --tool nap --arguments '{"seconds": 60}' --fill 1000 --pid 4242
  python -m benchmarks.load start -- python server.py
"""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = Commands(parser)
    commands.many_clients("call", "plain tools/call requests per second", tool="plain").add_argument(
        "--declare", action="store_true", help="declare the tasks extension"
    )
    commands.many_clients("throughput", "finished tasks per second from many clients", tool="noop").add_argument(
        "--pause", type=float, default=0.0, help="seconds before each poll"
    )
    _roundtrip(commands)
    _poll(commands)
    _hold(commands)
    _cancel(commands)
    start = commands.add("start", "time from the start of a process to its first answer")
    start.add_argument("--method", default="tools/list")
    start.add_argument("command", nargs="+", help="the server's command, after --")
    commands.add("stub", "a server that does nothing: the ceiling of the generator itself")
    return parser.parse_args(arguments)


class Commands:
    """The commands, with the options that each of them has."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._commands = parser.add_subparsers(dest="measure", required=True, metavar="COMMAND")

    def add(self, name: str, text: str) -> argparse.ArgumentParser:
        command = self._commands.add_parser(name, help=text)
        command.add_argument("--url", default="http://127.0.0.1:9100/mcp")
        command.add_argument("--header", action="append", default=[], help="e.g. 'Authorization: ...'")
        command.add_argument("--repeat", type=int, default=1)
        command.add_argument("--attempts", type=int, default=0, help="most runs (default: repeat)")
        command.add_argument("--quiet", type=float, default=0.25, help="foreign cores allowed")
        command.add_argument("--patience", type=float, default=0.0, help="seconds to wait for quiet")
        command.add_argument("--pid", type=int, action="append", default=[], help="server, helpers...")
        command.add_argument("--label", default="", help="name of this run in the JSON file")
        command.add_argument("--json", help="append the full result to this file")
        return command

    def with_tool(self, name: str, text: str, tool: str) -> argparse.ArgumentParser:
        command = self.add(name, text)
        command.add_argument("--tool", default=tool)
        command.add_argument("--arguments", type=json.loads, default={}, help="JSON object")
        return command

    def many_clients(self, name: str, text: str, tool: str) -> argparse.ArgumentParser:
        command = self.with_tool(name, text, tool)
        command.add_argument("--clients", type=int, default=32)
        command.add_argument("--duration", type=float, default=5.0)
        command.add_argument("--warmup", type=float, default=0.5, help="seconds before that")
        return command


def _roundtrip(commands: Commands) -> None:
    command = commands.with_tool("roundtrip", "latency of one task at a time", tool="noop")
    command.add_argument("-n", "--number", type=int, default=200)
    command.add_argument("--warmup", type=int, default=20)
    command.add_argument("--pause", type=float, default=0.0, help="seconds before each poll")


def _poll(commands: Commands) -> None:
    command = commands.many_clients("poll", "tasks/get requests per second on one task", tool="nap")
    command.add_argument("--fill", type=int, default=0, help="finished tasks to create before")
    command.add_argument("--fill-tool", default="noop")
    command.add_argument("--fill-arguments", type=json.loads, default={})


def _hold(commands: Commands) -> None:
    command = commands.with_tool("hold", "many unfinished tasks at once: creation rate, memory", tool="nap")
    command.add_argument("-n", "--number", type=int, default=1000)
    command.add_argument("--clients", type=int, default=16)
    command.add_argument("--steps", type=int, default=10, help="intermediate measurements")
    command.add_argument("--settle", type=float, default=2.0, help="seconds to wait after creation")
    command.add_argument("--watch", type=float, default=5.0, help="seconds to watch the processor time")
    command.add_argument("--gauge-tool", help="plain tool that returns how many tasks run")
    command.add_argument("--cancels", action="store_true", help="cancel all of them afterwards")


def _cancel(commands: Commands) -> None:
    command = commands.with_tool("cancel", "time from tasks/cancel to cancelled", tool="nap")
    command.add_argument("-n", "--number", type=int, default=20)
    command.add_argument("--settle", type=float, default=0.5, help="seconds to let the task run")
