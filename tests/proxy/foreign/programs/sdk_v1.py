"""The client of the Python SDK 1.x. Told a folder to call its root, and the server."""
# It runs where SDK 1.x is installed; here there is 2.x, which has other names.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportArgumentType=false, reportDeprecated=false

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Any

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

from tests.interop.sdk_v1_client import error_of
from tests.proxy.foreign.programs.puppet import chosen, serve, tell

TTL = 60_000


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Answers:
    """What the server asks, answered."""

    def __init__(self, root: str) -> None:
        self._root = root

    async def elicit(self, _: Any, params: Any) -> types.ElicitResult:
        tell(asked="elicitation/create", params=plain(params))
        return types.ElicitResult(action="accept", content=chosen(params.requestedSchema))

    async def sample(self, _: Any, params: Any) -> types.CreateMessageResult:
        tell(asked="sampling/createMessage", params=plain(params))
        said = types.TextContent(type="text", text="Something")
        return types.CreateMessageResult(role="assistant", model="none", content=said)

    async def roots(self, _: Any) -> types.ListRootsResult:
        tell(asked="roots/list", params={})
        return types.ListRootsResult(roots=[types.Root(uri=AnyUrl(f"file://{self._root}"), name="home")])


async def heard(message: Any) -> None:
    if isinstance(message, types.ServerNotification):
        tell(heard=message.root.method, params=plain(message.root.params) if message.root.params else None)


async def progressed(*_: Any) -> None:
    """It is heard, like everything else that is told."""


class Verbs:
    def __init__(self, session: ClientSession) -> None:
        self._session, self._tasks = session, session.experimental

    async def about(self) -> Any:
        return {"capabilities": plain(self._session.get_server_capabilities())}

    async def tools(self) -> Any:
        return plain(await self._session.list_tools())["tools"]

    async def resources(self) -> Any:
        return plain(await self._session.list_resources())["resources"]

    async def templates(self) -> Any:
        return plain(await self._session.list_resource_templates())["resourceTemplates"]

    async def prompts(self) -> Any:
        return plain(await self._session.list_prompts())["prompts"]

    async def read(self, uri: str) -> Any:
        return plain(await self._session.read_resource(AnyUrl(uri)))["contents"]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return plain(await self._session.get_prompt(name, arguments))["messages"]

    async def complete(self, ref: dict[str, str], argument: dict[str, str]) -> Any:
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return plain(await self._session.complete(kind(**ref), argument))["completion"]["values"]

    async def subscribe(self, uri: str) -> None:
        await self._session.subscribe_resource(AnyUrl(uri))

    async def level(self, level: Any) -> None:
        await self._session.set_logging_level(level)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return plain(await self._session.call_tool(name, arguments, progress_callback=progressed))

    async def task(self, name: str, arguments: dict[str, Any]) -> Any:
        task_id = await self._hand_in(name, arguments)
        statuses: list[str] = []
        async for task in self._tasks.poll_task(task_id):
            statuses.append(task.status)
            if task.status == "input_required":
                break
        seen = {"kind": "task", "statuses": statuses}
        try:
            return {**seen, "result": plain(await self._tasks.get_task_result(task_id, types.CallToolResult))}
        except McpError as error:
            return {**seen, **error_of(error)}

    async def cancel(self, name: str, arguments: dict[str, Any]) -> Any:
        task_id = await self._hand_in(name, arguments)
        cancelled = await self._tasks.cancel_task(task_id)
        return {"status": cancelled.status, "later": (await self._tasks.get_task(task_id)).status}

    async def give_up(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call, and do not wait for long."""
        try:
            await self._session.call_tool(name, arguments, read_timeout_seconds=timedelta(seconds=0.5))
        except McpError:
            return {"isOver": False}
        return {"isOver": True}

    async def _hand_in(self, name: str, arguments: dict[str, Any]) -> str:
        meta = {"progressToken": "the token"}
        return (await self._tasks.call_tool_as_task(name, arguments, ttl=TTL, meta=meta)).task.taskId

    def all(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in vars(Verbs) if not name.startswith("_")}


async def main(root: str, *target: str) -> None:
    if target[0].startswith("http"):
        transport = streamable_http_client(target[0])
    else:
        transport = stdio_client(StdioServerParameters(command=target[0], args=list(target[1:])))
    answers = Answers(root)
    async with (
        transport as (reading, writing, *_),
        ClientSession(
            reading,
            writing,
            elicitation_callback=answers.elicit,
            sampling_callback=answers.sample,
            list_roots_callback=answers.roots,
            message_handler=heard,
        ) as session,
    ):
        await session.initialize()
        await serve(Verbs(session).all(), lambda error: error_of(error) if isinstance(error, McpError) else None)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
