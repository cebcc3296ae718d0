"""A server on stdin and stdout that answers as it is told to: each sin is a table of answers.

It is run as a program, with the generation and the name of a sin. An answer is a result, an error, or a list of
them, one for each time it is asked; the last one stays.
"""

from __future__ import annotations

import json
import sys
from typing import Any, cast

Json = dict[str, Any]
EXTENSION = "io.modelcontextprotocol/tasks"
TOOL: Json = {"name": "tool", "inputSchema": {"type": "object"}}
RESULT: Json = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}
QUESTION: Json = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
}
NEVER = {"never": True}


def task(status: str = "working", **more: Any) -> Json:
    times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
    return {"taskId": "t1", "status": status, **times, "ttlMs": 60_000, "pollIntervalMs": 20, **more}


def created(**more: Any) -> Json:
    return {"resultType": "task", **task(**more)}


DONE = task("completed", result=RESULT, resultType="complete")


def error(code: int, message: str, data: Any = None) -> Json:
    return {"error": {"code": code, "message": message, **({} if data is None else {"data": data})}}


SINS: dict[str, Json] = {
    "none": {},
    "an unknown status": {"tasks/get": [task("pondering"), task("pondering"), DONE]},
    "no interval": {
        "tools/call": {"resultType": "task", "taskId": "t1", "status": "working"},
        "tasks/get": {"taskId": "t1", "status": "completed", "result": RESULT},
    },
    "nonsense for numbers": {
        "tools/call": created(ttlMs="long", pollIntervalMs=-5, createdAt="yesterday", statusMessage=7),
        "tasks/get": [task(pollIntervalMs=1e400, ttlMs=-1, lastUpdatedAt=None), DONE],
    },
    "a shrinking lifetime": {"tasks/get": [task(ttlMs=5_000), task(ttlMs=10), task(ttlMs=1), DONE]},
    "a poll that says it made a task": {"tasks/get": [created(), {**DONE, "resultType": "task"}]},
    "another task": {"tasks/get": {**DONE, "taskId": "t2"}},
    "a task without a name": {"tools/call": {"resultType": "task", "status": "working"}},
    "a task for a list": {"tools/list": created()},
    "no list": {"tools/list": {"tools": "none"}},
    "junk in the list": {"tools/list": {"tools": [None, 7, {}, {"name": 5}, TOOL]}},
    "an early error": {"tools/call": error(-32003, "Missing", {"requiredCapabilities": {"elicitation": {}}})},
    "a missing capability": {
        "tools/call": error(-32021, "Missing capability", {"requiredCapabilities": {"sampling": {}}})
    },
    "an end without a result": {"tasks/get": task("completed")},
    "a failure without an error": {"tasks/get": task("failed", statusMessage="It broke")},
    "a failure": {"tasks/get": task("failed", error={"code": -32050, "message": "It broke", "data": [1]})},
    "a question again and again": {
        "tasks/get": [task("input_required", inputRequests={"k": QUESTION})] * 4 + [DONE],
    },
    "a lost task": {"tasks/get": [task(), error(-32602, "Task not found")]},
    "a lost task, in other words": {"tasks/get": [task(), error(-32603, "Task t1 not found")]},
    "a bad moment": {"tasks/get": [error(-32603, "Try again"), error(-32029, "Too often"), DONE]},
    "for ever out of order": {"tasks/get": error(-32603, "Out of order")},
    "noise": {"notify": [{"method": "notifications/tasks", "params": {"nothing": 1}}, {"method": "notifications/x"}]},
    "a task nobody asked for": {"discover": {}, "tools/call": created(), "tasks/get": DONE},
}
USUAL: Json = {"tools/list": {"tools": [TOOL]}, "tools/call": created(), "tasks/get": DONE, "tasks/update": {}}


def main(sin: str) -> None:
    answers = {**USUAL, **SINS[sin]}
    asked: dict[str, int] = {}
    extensions = answers.get("discover", {EXTENSION: {}})
    answers["server/discover"] = {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "extensions": extensions},
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        method = message["method"]
        said: Any = answers.get(method, error(-32601, "Method not found"))
        several = cast("list[Json]", said if isinstance(said, list) else [said])
        answer = several[min(asked.get(method, 0), len(several) - 1)]
        asked[method] = asked.get(method, 0) + 1
        for note in answers.get("notify", ()):
            say(note)
        if method == "tasks/update":
            print("answered", *message["params"]["inputResponses"], file=sys.stderr, flush=True)
        say({"id": message["id"], **(answer if "error" in answer and "taskId" not in answer else {"result": answer})})


def say(message: Json) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
