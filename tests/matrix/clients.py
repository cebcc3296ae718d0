"""The four clients of the matrix, and how each says who it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY

Json = dict[str, Any]

EXTENSION = "io.modelcontextprotocol/tasks"
NAME = "Ada"
"""What every client answers when it is asked for a name."""
ACCEPTED: Json = {"action": "accept", "content": {"name": NAME}}


@dataclass(frozen=True)
class Client:
    name: str
    version: str
    capabilities: Mapping[str, Any]

    @property
    def is_modern(self) -> bool:
        """Whether each request says who sends it; others say so once, in a handshake."""
        return self.version >= "2026"

    def request(self, message_id: int, method: str, params: Mapping[str, Any]) -> Json:
        given = dict(params)
        if self.is_modern:
            envelope = {PROTOCOL_VERSION_META_KEY: self.version, CLIENT_CAPABILITIES_META_KEY: self.capabilities}
            given["_meta"] = {**envelope, **given.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": message_id, "method": method, "params": given}

    def handshake(self) -> Json:
        """Return the params of `initialize`."""
        return {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": self.name, "version": "1"},
        }

    def answer(self, question: Json) -> Json:
        """Return what to say to a request of the server."""
        reply = {"jsonrpc": "2.0", "id": question["id"]}
        if question["method"] == "elicitation/create":
            return {**reply, "result": ACCEPTED}
        return {**reply, "error": {"code": -32601, "message": "Method not found"}}


CLIENTS = {
    client.name: client
    for client in (
        Client("2025-11-25", "2025-11-25", {"elicitation": {"form": {}}}),
        Client("2026-07-28", "2026-07-28", {"elicitation": {"form": {}}, "extensions": {EXTENSION: {}}}),
        Client("2025-06-18", "2025-06-18", {"elicitation": {}}),
        Client("2026-07-28-no-tasks", "2026-07-28", {"elicitation": {"form": {}}}),
    )
}
