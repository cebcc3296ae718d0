"""A server on stdin and stdout without anything to import, so that it starts at once: its first argument is a folder.

It writes its process id there when it begins, and ends at once while there is a file `closed`. On its stderr it says
what it is at.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
TOOLS = ("pid", "environment", "stuck", "die")


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def call(name: str) -> dict[str, Any] | None:
    match name:
        case "pid":
            said = str(os.getpid())
        case "environment":
            said = f"{os.environ.get('COATCHECK_TOLD', '')} {Path.cwd()}"
        case "stuck":
            say("stuck")
            return None
        case _:
            say("I have had enough")
            os._exit(1)
    return {"content": [{"type": "text", "text": said}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            info = {"name": "child", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        case "tools/call":
            return call(params["name"])
        case _:
            return {}


def main() -> None:
    with (FOLDER / "pids").open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    say("begun")
    if (FOLDER / "closed").exists():
        say("It is closed")
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "server/discover":
            reply["error"] = {"code": -32601, "message": "Method not found"}
        elif (result := answer(message["method"], message.get("params") or {})) is not None:
            reply["result"] = result
        else:
            continue
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
