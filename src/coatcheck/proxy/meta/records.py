"""Tasks as the meta tools show them."""

from __future__ import annotations

from collections.abc import Sequence

from coatcheck.client.wire import Json
from coatcheck.dialects.words import message
from coatcheck.engine import Engine
from coatcheck.payload import decode
from coatcheck.proxy.activity.events import timestamp
from coatcheck.proxy.states import task_status
from coatcheck.proxy.work import Errand, errand_of
from coatcheck.task import Position, Task

_PAGE = 200


def shown(task: Task, errand: Errand) -> Json:
    """Return what there is to know of a task but its result."""
    record: Json = {
        "task_id": task.id,
        "status": task_status(task),
        "created_at": timestamp(task.created_at),
        "last_updated_at": timestamp(task.updated_at),
        "server": errand.server,
        "tool": errand.tool,
        "args": decode(task.call.arguments),
        "ttl": None if errand.lifetime is None else round(errand.lifetime * 1000),
    }
    if said := message(task):
        record["status_message"] = said
    if task.failure:
        record["error"] = task.failure.message
    return record


def brief(task: Task, errand: Errand) -> Json:
    return {"taskId": task.id, "toolName": errand.tool, "status": task_status(task)}


async def tasks_of(engine: Engine, owner: str | None) -> Sequence[tuple[Task, Errand]]:
    """Return an owner's tasks that servers carry out, newest first."""
    found: list[tuple[Task, Errand]] = []
    after: Position | None = None
    while page := await engine.list(owner, after=after, limit=_PAGE):
        found += [(task, errand) for task in page if (errand := errand_of(task))]
        after = page[-1].position
    return found


async def working(engine: Engine, owner: str | None, server: str | None = None) -> list[tuple[Task, Errand]]:
    """Return the tasks that servers are at work on."""
    found = await tasks_of(engine, owner)
    return [
        (task, errand)
        for task, errand in found
        if not task.status.is_terminal and (server is None or errand.server == server)
    ]
