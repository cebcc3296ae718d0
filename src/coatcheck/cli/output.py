"""What goes to stdout: results for people, or JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from coatcheck.cli.durations import ago
from coatcheck.cli.plain import one_line, plain
from coatcheck.dialects.seen import Question, Snapshot

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_WIDE = 1000


def write(text: str) -> None:
    """Print a text. A terminal gets it without what it would obey."""
    print(plain(text) if sys.stdout.isatty() else text, flush=True)


def write_json(value: Mapping[str, Any]) -> None:
    """Print an object in one line."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def stdout() -> Console:
    """Return stdout as something to lay out on. What is piped is not folded to fit a screen."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_WIDE)


def write_result(result: CallToolResult, task_id: str | None, tool: str | None, *, is_json: bool) -> None:
    """Print the result of a call."""
    if is_json:
        write_json({"id": task_id, "tool": tool, "status": "completed", "result": result_json(result)})
    else:
        write(result_text(result))


def result_text(result: CallToolResult) -> str:
    """Return a result as one would read it."""
    blocks = [_block(block.model_dump(by_alias=True, mode="json", exclude_none=True)) for block in result.content]
    if not blocks and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False, indent=2)
    return "\n".join(blocks)


def result_json(result: CallToolResult) -> dict[str, Any]:
    """Return a result as it came."""
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)


def snapshot_json(snapshot: Snapshot, tool: str | None = None) -> dict[str, Any]:
    """Return what is known of a task, without what is not."""
    progress = snapshot.progress
    known: dict[str, Any] = {
        "id": snapshot.id,
        "tool": tool,
        "status": snapshot.status.value,
        "message": snapshot.message,
        "progress": progress and {"done": progress.done, "total": progress.total},
        "created_at": _time(snapshot.created_at),
        "updated_at": _time(snapshot.updated_at),
        "ttl": snapshot.ttl.total_seconds() if snapshot.ttl else None,
        "questions": {
            key: {"method": question.method, "params": question.params} for key, question in snapshot.questions.items()
        },
    }
    return {name: value for name, value in known.items() if value not in (None, {})}


def snapshot_text(snapshot: Snapshot, tool: str | None = None) -> str:
    """Return what is known of a task, a line for each thing."""
    progress, now = snapshot.progress, datetime.now(UTC)
    left = snapshot.created_at + snapshot.ttl - now if snapshot.created_at and snapshot.ttl else None
    known = {
        "task": snapshot.id,
        "tool": tool,
        "status": snapshot.status.value.replace("_", " "),
        "message": one_line(snapshot.message or ""),
        "progress": progress and f"{progress.done:g}" + (f" of {progress.total:g}" if progress.total else ""),
        "started": snapshot.created_at and f"{ago((now - snapshot.created_at).total_seconds())} ago",
        "kept for": left and f"{ago(left.total_seconds())} more",
        **{f"asks {key}": question_text(question) for key, question in snapshot.questions.items()},
    }
    width = max(len(name) for name, value in known.items() if value)
    return "\n".join(f"{name:{width}}  {value}" for name, value in known.items() if value)


def question_text(question: Question) -> str:
    """Return what a question says, in one line."""
    return one_line(str(question.params.get("message", ""))) or question.method


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _block(block: Mapping[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return f"[{kind}: {block.get('mimeType')}, {_size(data)} bytes; --json prints it]"
        case {"type": "resource_link", "uri": uri}:
            return f"[{block.get('title') or block.get('name') or 'link'}: {uri}]"
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"uri": uri, **rest}}:
            return f"[{uri}: {_size(str(rest.get('blob', '')))} bytes; --json prints it]"
        case _:
            return json.dumps(cast("dict[str, Any]", block), ensure_ascii=False)


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
