"""What each client is told of tasks before it calls anything, on every transport."""

from __future__ import annotations

from typing import Any

import pytest

from tests.matrix.clients import CLIENTS, EXTENSION, Client, Json
from tests.matrix.conftest import Network
from tests.matrix.peers import Peer
from tests.matrix.table import MODES, NEEDS_CAPABILITY, NOT_FOUND, OUTCOMES, TRANSPORTS, Transport, tool_name

pytestmark = pytest.mark.anyio

TICKET_TOOLS = {"get_task", "wait_task", "answer_task", "cancel_task", "list_tasks"}
CAPABILITY: Json = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
HEEDED: Json = {"coatcheck/idempotencyKey": {}}
HEEDED_IN_SESSION: Json = {"coatcheck/idempotencyKey": {"scope": "session"}}
"""What a server says beside its tasks, under `experimental`."""

CASES = [
    pytest.param(client, transport, id=f"{client.name}-{transport}", marks=[pytest.mark.slow] * (transport == "stdio"))
    for transport in TRANSPORTS
    for client in CLIENTS.values()
]


@pytest.mark.parametrize(("client", "transport"), CASES)
async def test_a_client_is_told_of_tasks_in_the_words_of_its_version(
    client: Client, transport: Transport, network: Network
) -> None:
    peer = await network.peer(client, transport)
    if client.is_modern:
        told: Json = (await peer.request("server/discover", {}))["result"]["capabilities"]
        assert told["extensions"] == {EXTENSION: {}}
        assert "tasks" not in told
    else:
        told = peer.greeting["capabilities"]
        has_tasks = client.name == "2025-11-25"
        assert told.get("tasks") == (CAPABILITY if has_tasks else None)
        heeded = HEEDED_IN_SESSION if transport.startswith("http") else HEEDED
        assert told.get("experimental", {}) == (heeded if has_tasks else {})
        assert EXTENSION not in told.get("extensions", {})


@pytest.mark.parametrize(("client", "transport"), CASES)
async def test_a_client_is_shown_the_tools_it_can_use(client: Client, transport: Transport, network: Network) -> None:
    peer = await network.peer(client, transport)
    twin = await network.peer(client, transport, is_twin=True)
    if client.name == "2025-11-25":  # a client of this version is one with tasks once it has used them
        params: Json = {"name": tool_name("required", "ok"), "arguments": {"label": "first"}, "task": {}}
        assert "task" in (await peer.request("tools/call", params))["result"]
    shown, alone = await _tools(peer), await _tools(twin)
    knows_tasks = client.name in ("2025-11-25", "2026-07-28")
    assert shown.keys() - alone.keys() == (set() if knows_tasks else TICKET_TOOLS)
    assert alone.keys() <= shown.keys()
    for mode in MODES:
        for outcome in OUTCOMES:
            name = tool_name(mode, outcome)
            expected = dict(alone[name])
            if client.name == "2025-11-25" and mode != "forbidden":
                expected["execution"] = {"taskSupport": mode}
            if client.is_modern:
                expected["_meta"] = {"coatcheck/taskSupport": mode}
            if mode == "optional" and not knows_tasks and "outputSchema" in expected:
                assert _is_widened(shown[name].pop("outputSchema"), expected.pop("outputSchema"))
            assert shown[name] == expected


@pytest.mark.parametrize(("client", "transport"), CASES)
async def test_who_knows_no_tasks_cannot_ask_for_one(client: Client, transport: Transport, network: Network) -> None:
    peer = await network.peer(client, transport)
    answer = await peer.request("tasks/get", {"taskId": "none"})
    if client.name in ("2025-11-25", "2026-07-28"):
        assert answer["error"]["message"] == "Failed to retrieve task: Task not found"
    else:
        assert answer["error"]["code"] == (NEEDS_CAPABILITY if client.is_modern else NOT_FOUND)


def _is_widened(shown: Json, original: Json) -> bool:
    first, ticket = shown["anyOf"]
    return shown["type"] == "object" and first == original and "task" in ticket["properties"]


async def _tools(peer: Peer) -> dict[str, Any]:
    listed: Json = (await peer.request("tools/list", {}))["result"]
    assert "nextCursor" not in listed
    return {tool["name"]: tool for tool in listed["tools"]}
