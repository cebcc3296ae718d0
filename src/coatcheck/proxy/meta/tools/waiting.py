"""`await_activity`: wait until anything happens, and see all there is to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from coatcheck.client.wire import Json
from coatcheck.proxy.activity.events import Event, EventType
from coatcheck.proxy.meta.counter import Caller, Counter, Ctx, Whole, block
from coatcheck.proxy.meta.records import brief, working


class Waiting:
    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def await_activity(
        self,
        ctx: Ctx,
        timeout_ms: Annotated[int, Field(ge=100, le=900_000, description="How long to wait at most")] = 30_000,
        last_event_id: Annotated[
            str | None, Field(description="lastEventId of an earlier answer: have everything since then told again")
        ] = None,
    ) -> Whole:
        """Wait until something happens on any server: a question, a notification, a task that ends. Then call again."""
        caller = await self._counter.caller(ctx)
        events = caller.activity.events
        if last_event_id is not None and (missed := events.since(last_event_id)):
            events.take()
            return await self._answer(caller, [{"type": "immediate"}], missed)
        if events.has_undelivered:
            return await self._answer(caller, [{"type": "immediate"}], events.take())
        woken_by = await self._counter.woken(caller, timeout_ms / 1000)
        triggers = [_trigger(event) for event in woken_by] or [{"type": "timeout"}]
        return await self._answer(caller, triggers, events.take())

    async def _answer(self, caller: Caller, triggers: Sequence[Json], events: Sequence[Event]) -> Whole:
        found = await working(self._counter.tasking.running.engine, caller.owner)
        servers = dict.fromkeys(errand.server for _, errand in found)
        said: Json = {
            "triggers": triggers,
            "events": _by_server(events),
            "pending_server": [
                {
                    "server": server,
                    "working_tasks": [brief(task, errand) for task, errand in found if errand.server == server],
                }
                for server in servers
            ],
            "pending_client": {
                "elicitations": caller.elicitations(),
                "sampling_requests": caller.samplings(),
            },
        }
        if last := caller.activity.events.last_id:
            said["lastEventId"] = last
        return Whole({"content": [block(said)], "isError": False}, is_complete=True)


def _trigger(event: Event) -> Json:
    if event.type == EventType.SERVER_DISCONNECTED:
        return {"type": "server_disconnected", "server": event.server}
    return {"type": "event", "server": event.server, "eventType": str(event.type)}


def _by_server(events: Sequence[Event]) -> list[Any]:
    servers = dict.fromkeys(event.server for event in events)
    return [
        {"server": server, "events": [event.to_json() for event in events if event.server == server]}
        for server in servers
    ]
