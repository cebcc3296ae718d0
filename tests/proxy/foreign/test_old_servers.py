"""What the proxy must not do to servers on the Python SDK 1.x, which do not survive it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.interop_servers.servers import command
from tests.proxy.foreign.callers import text_of
from tests.proxy.foreign.proxies import recorded, unprefixed
from tests.proxy.foreign.puppets import Json, playing

pytestmark = pytest.mark.slow


def test_a_result_is_not_cancelled_while_it_is_being_sent(tmp_path: Path) -> None:
    """A cancellation that meets the answer ends the process, and with it all tasks it has."""
    record = tmp_path / "told.jsonl"
    server = recorded(command("sdk_v1", "stdio"), record)
    with unprefixed(server, tmp_path) as target, playing("python_v1", tmp_path, target) as client:
        seen = client.do("task", name="ask", arguments={})
        assert text_of(seen["result"]) == "Hello, Ada!"
    told = msgspec.json.Decoder(Json).decode_lines(record.read_bytes())
    results = {line["id"] for line in told if line.get("method") == "tasks/result"}
    cancelled = {line["params"]["requestId"] for line in told if line.get("method") == "notifications/cancelled"}
    assert results
    assert not results & cancelled
