"""A server over stdin and stdout, as clients start them."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.cli.clients import value
from tests.cli.sdk_client import TasksClient, Ticket, collect
from tests.cli.serving import APP, COMMAND, PATIENCE, ROOT, environment

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def parameters(folder: Path) -> StdioServerParameters:
    arguments = [*COMMAND[1:], APP, "--stdio", "--store", f"sqlite:///{folder}/tasks.db"]
    return StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT, env=environment(folder))


async def test_tasks_are_served_over_stdio(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        async with Client(parameters(tmp_path), extensions=[TasksClient()]) as client:
            assert client.protocol_version == "2026-07-28"
            first = value(await client.call_tool("worker"))
            ticket = await client.session.call_tool("worker", {}, allow_claimed=True)
            assert isinstance(ticket, Ticket)
        async with Client(parameters(tmp_path), extensions=[TasksClient()]) as client:
            assert value(await collect(client.session, ticket.task_id)) == first


async def test_a_server_on_stdio_ends_with_its_client(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, APP, "--stdio", cwd=ROOT, env=environment(tmp_path), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    async with asyncio.timeout(PATIENCE):
        said, _ = await process.communicate(b"")
    assert (process.returncode, said) == (0, b"")
