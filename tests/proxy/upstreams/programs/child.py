"""A server on stdin and stdout without anything to import, so that it starts at once: its first argument is a folder.

It writes its process id there when it begins, ends at once while there is a file `closed`, and leaves a file `stuck`
when that tool is called, which never answers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
TOOLS = ("pid", "environment", "stuck", "die")


def call(name: str) -> dict[str, Any] | None:
    match name:
        case "pid":
            said = str(os.getpid())
        case "environment":
            said = f"{os.environ.get('COATCHECK_TOLD', '')} {Path.cwd()}"
        case "stuck":
            (FOLDER / "stuck").touch()
            return None
        case _:
            print("I have had enough", file=sys.stderr, flush=True)
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
    if (FOLDER / "closed").exists():
        print("It is closed", file=sys.stderr, flush=True)
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
