"""Being told: `subscriptions/listen` for all followed tasks, on as few streams as will do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any, cast

from mcp.shared.exceptions import MCPError

from coatcheck.client.channel import Line
from coatcheck.client.connection import ConnectionLost
from coatcheck.client.http import pause
from coatcheck.client.news import News
from coatcheck.client.wire import Params
from coatcheck.errors import CannotConnect

logger = logging.getLogger("coatcheck")
_GATHER_SECONDS = 0.02
_MOST_PER_STREAM = 500
_MOST_STREAMS = 4


class Push:
    def __init__(self, link: Line, news: News) -> None:
        self._link, self._news = link, news
        self._told: set[str] = set()
        self._streams: dict[asyncio.Task[None], set[str]] = {}
        self._gathering: asyncio.Task[None] | None = None
        self._refused_by: object = None
        """The connection on which the server would not tell."""

    def tells_of(self, task_id: str) -> bool:
        return task_id in self._told

    @property
    def may_tell(self) -> bool:
        """Whether the server has not refused, so that it may be about to."""
        return self._gathering is not None or bool(self._streams)

    def add(self) -> None:
        """Be told of all tasks that are followed, if the server can."""
        connection = self._link.connection
        if connection is None or not (connection.is_modern and connection.has_tasks) or connection is self._refused_by:
            return
        if self._gathering is None:
            self._gathering = asyncio.create_task(self._gather())

    def remove(self, task_id: str) -> None:
        self._told.discard(task_id)
        for stream, ids in self._streams.items():
            ids.discard(task_id)
            if not ids:
                stream.cancel()

    def acknowledged(self, params: Params) -> None:
        """Note what the server says it will tell of."""
        honored: Any = (params or {}).get("notifications")
        ids: Any = cast("dict[str, Any]", honored).get("taskIds") if isinstance(honored, dict) else None
        if isinstance(ids, list):
            self._told.update(set(cast("list[str]", ids)) & set(self._news.followed))

    async def close(self) -> None:
        tasks = [*self._streams, *([self._gathering] if self._gathering else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _gather(self) -> None:
        """Wait a moment for others to come, then listen for all of them together."""
        await asyncio.sleep(_GATHER_SECONDS)
        self._gathering = None
        listened = set[str]().union(*self._streams.values())
        before: list[asyncio.Task[None]] = []
        if len(self._streams) >= _MOST_STREAMS:
            before, listened = list(self._streams), set[str]()
        wanted = [task_id for task_id in self._news.followed if task_id not in listened]
        for start in range(0, len(wanted), _MOST_PER_STREAM):
            ids = set(wanted[start : start + _MOST_PER_STREAM])
            stream = asyncio.create_task(self._listen(ids))
            self._streams[stream] = ids
            stream.add_done_callback(lambda done: self._streams.pop(done, None))
        for stream in before:
            self._streams.pop(stream, None)
            stream.cancel()

    async def _listen(self, ids: set[str]) -> None:
        attempt = 0
        while ids:
            try:
                connection = await self._link.open()
                try:
                    await connection.request("subscriptions/listen", {"notifications": {"taskIds": sorted(ids)}})
                except MCPError as error:
                    logger.info("The server does not tell of changes to tasks: %s", error)
                    self._refused_by = connection
                    return
            except (ConnectionLost, CannotConnect) as error:
                logger.debug("A stream of changes was lost: %s", error)
            finally:
                self._lost(ids)
            await asyncio.sleep(pause(attempt))
            attempt += 1

    def _lost(self, ids: Collection[str]) -> None:
        """Have those looked at that might have changed unheard."""
        elsewhere = [held for held in self._streams.values() if held is not ids]
        for task_id in ids:
            if not any(task_id in held for held in elsewhere):
                self._told.discard(task_id)
                self._news.wake(task_id)
