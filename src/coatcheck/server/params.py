"""What the methods of tasks take."""

from __future__ import annotations

from typing import Any

from mcp_types import RequestParams


class TaskParams(RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


class ListParams(RequestParams):
    cursor: str | None = None
