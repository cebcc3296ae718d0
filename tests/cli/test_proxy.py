"""`coatcheck proxy` on the command line: what it says, refuses and leaves behind."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import mcp
import psutil
import pytest
from mcp_types import TextContent

from tests.cli.caller import Caller
from tests.cli.serving import PATIENCE, ROOT, Served, environment
from tests.forked import Forked, call_coatcheck, fork
from tests.proxy.upstreams.conftest import CHILD

SECRET = "hunter2"
BOUND = 30
"""Longer it must not take to stop, however busy the machine is: whoever sent SIGTERM sends SIGKILL next."""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "mcp.json"


def write(config: Path, **servers: Any) -> None:
    config.write_text(json.dumps({"mcpServers": servers}, indent=1))


def child(folder: Path) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", str(CHILD), str(folder)]}


# What it says and refuses


def test_the_help_names_what_can_be_set(coatcheck: Caller) -> None:
    done = coatcheck("proxy", "--help")
    assert done.code == 0
    for word in ("--config", "--http", "--tools", "--no-prefix", "--promote-after", "--store", "--shared"):
        assert word in done.out
    assert "coatcheck proxy --config mcp.json" in done.out.partition("Examples:")[2]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "mcp.json cannot be read: No such file or directory."),
        ("{", "mcp.json is no JSON: "),
        ("[]", "mcp.json names no servers; they belong under 'mcpServers'."),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(
    text: str | None, sentence: str, coatcheck: Caller, config: Path
) -> None:
    if text is not None:
        config.write_text(text)
    done = coatcheck("proxy", "--config", str(config))
    assert (done.code, done.out) == (2, "")
    assert sentence in done.sentence


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--promote-after", "0"], "promote-after"),
        (["--promote-after", "soon"], "promote-after"),
        (["--http", "nowhere"], "'nowhere' is no host:port; write --http 127.0.0.1:8000."),
        (["--http", ":0", "--path", "mcp"], "/mcp"),
        (["--store", "nowhere://"], "nowhere"),
        (["--no-prefix"], "--no-prefix is for one server, but"),
        (["--log-level", "loud"], "loud"),
        (["--nothing"], "--nothing"),
    ],
)
def test_what_cannot_be_set_is_refused_in_one_sentence(
    options: list[str], sentence: str, coatcheck: Caller, config: Path
) -> None:
    write(config, a={"command": "x"}, b={"command": "y"})
    done = coatcheck("proxy", "--config", str(config), *options)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.sentence


def test_if_no_server_can_be_used_each_is_told_why(
    coatcheck: Caller, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    write(config, a={"url": "ftp://${TOKEN}@h"}, b={"command": "x", "env": {"A": "${TOKEN}", "B": 1}})
    done = coatcheck("proxy", "--config", str(config))
    assert (done.code, done.out) == (2, "")
    first, second, last = done.err.splitlines()
    assert first.startswith(f"{config}:3: 'a' is left out: ")
    assert second.startswith(f"{config}:6: 'b' is left out: ")
    assert last == f"coatcheck: None of the servers in {config} can be used."
    assert SECRET not in done.err


def test_the_file_may_be_named_by_the_environment(
    coatcheck: Caller, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COATCHECK_PROXY_CONFIG", str(config))
    assert str(config) in coatcheck("proxy").sentence


# Serving


class Proxies:
    """Proxies in a folder, as processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._all: list[Served] = []

    async def __call__(self, config: Path, *arguments: str, **more: str) -> Served:
        """Start one over HTTP and wait until it serves."""
        command = ("proxy", "--config", str(config), "--http", "127.0.0.1:0", *arguments)
        process, says = await fork(call_coatcheck, command, ROOT, environment(self.folder, **more), stream=2)
        served = Served(process, says)
        self._all.append(served)
        await served.serves()
        return served

    async def clean_up(self) -> None:
        for served in self._all:
            await served.clean_up()


@pytest.fixture
async def start(tmp_path: Path) -> AsyncGenerator[Proxies]:
    proxies = Proxies(tmp_path)
    yield proxies
    await proxies.clean_up()


async def call(url: str, tool: str, **arguments: Any) -> str:
    async with asyncio.timeout(PATIENCE), mcp.Client(url) as client:
        result = await client.call_tool(tool, arguments)
        assert isinstance(result.content[0], TextContent)
        return result.content[0].text


@pytest.mark.slow
@pytest.mark.anyio
async def test_over_http_it_says_what_is_served_where_and_names_bad_entries(
    start: Proxies, config: Path, tmp_path: Path
) -> None:
    write(config, bad={}, child=child(tmp_path), other={"url": f"http://u:{SECRET}@127.0.0.1:9/mcp?k={SECRET}"})
    served = await start(config, "--path", "/there", "--log-level", "info")
    assert served.url.endswith("/there")
    assert served.said[0].startswith(f"{config}:3: 'bad' is left out: ")
    assert await served.says("  servers ") == "child, other"
    pid = int(await call(served.url, "child__pid"))
    assert psutil.Process(pid).is_running()
    async with mcp.Client(served.url) as client:
        assert "child__pid" in [tool.name for tool in (await client.list_tools()).tools]
    served.signal(signal.SIGTERM)
    assert await served.ended() == 0
    assert not any("Traceback" in line or SECRET in line for line in served.said)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_told_to_stop_it_ends_well_and_its_processes_with_it(
    number: signal.Signals, start: Proxies, config: Path, tmp_path: Path
) -> None:
    write(config, child=child(tmp_path))
    served = await start(config, "--log-level", "debug")
    running = psutil.Process(int(await call(served.url, "child__pid")))
    calling = asyncio.create_task(call(served.url, "child__stuck"))
    await served.says("", having="stuck")
    served.signal(number)
    assert await served.ended(within=BOUND) == 0
    _, alive = await asyncio.to_thread(psutil.wait_procs, [running], PATIENCE)
    assert alive == []
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert not any("Traceback" in line for line in served.said)


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_default_store_is_found_again_by_the_same_file(start: Proxies, config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "mcp.json"
    other.parent.mkdir()
    for file in (config, other):
        write(file, child=child(tmp_path))
    said: list[str] = []
    for file in (config, config, other):
        served = await start(file)
        said.append(await served.says("  store "))
        served.signal(signal.SIGTERM)
        assert await served.ended() == 0
    assert said[0] == said[1] != said[2]
    assert re.fullmatch(rf"sqlite:///{tmp_path}/state/coatcheck/proxy-mcp-[0-9a-f]{{8}}\.db", said[0])
    assert len(list((tmp_path / "state" / "coatcheck").glob("proxy-mcp-*.db"))) == 2


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("way", ["hang up", "SIGTERM"])
async def test_over_stdio_it_ends_with_its_client_and_its_processes_with_it(
    way: str, config: Path, tmp_path: Path
) -> None:
    write(config, bad={}, child=child(tmp_path))
    command = ("proxy", "--config", str(config), "--store", f"sqlite:///{tmp_path}/tasks.db", "--no-prefix")
    process, says = await fork(call_coatcheck, command, ROOT, environment(tmp_path), stream=1)
    try:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        await _ask(process, says, "initialize", hello)
        process.tell(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        answer = await _ask(process, says, "tools/call", {"name": "pid", "arguments": {}})
        running = psutil.Process(int(answer["result"]["content"][0]["text"]))
        if way == "hang up":
            process.tell_no_more()
        else:
            process.signal(signal.SIGTERM)
        assert await process.ended(BOUND) == 0
        _, alive = await asyncio.to_thread(psutil.wait_procs, [running], PATIENCE)
        assert alive == []
    finally:
        await process.clean_up(PATIENCE)


async def _ask(process: Forked, says: asyncio.StreamReader, method: str, params: dict[str, Any]) -> dict[str, Any]:
    process.tell(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}))
    async with asyncio.timeout(PATIENCE):
        while (message := json.loads(await says.readline())).get("id") != method:
            pass
    return message
