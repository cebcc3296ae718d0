"""The client of the Python SDK 2.x, which has no tasks of its own. Told a root, how to connect, and the server."""
# What 2026-07-28 has no more, clients of 2025-11-25 go on using.
# pyright: reportDeprecated=false

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, FileUrl

from tests.proxy.foreign.programs.puppet import chosen, serve, tell


def plain(model: BaseModel) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Answers:
    """What the server asks, answered."""

    def __init__(self, root: str) -> None:
        self._root = root

    async def elicit(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        tell(asked="elicitation/create", params=plain(params))
        assert isinstance(params, types.ElicitRequestFormParams)
        return types.ElicitResult(action="accept", content=chosen(params.requested_schema))

    async def sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        tell(asked="sampling/createMessage", params=plain(params))
        said = types.TextContent(type="text", text="Something")
        return types.CreateMessageResult(role="assistant", model="none", content=said)

    async def roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        tell(asked="roots/list", params={})
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(f"file://{self._root}"), name="home")])


async def heard(message: Any) -> None:
    if isinstance(method := getattr(message, "method", None), str):
        params = getattr(message, "params", None)
        tell(heard=method, params=plain(params) if params else None)


async def progressed(*_: Any, **__: Any) -> None:
    """It is heard, like everything else that is told."""


class Verbs:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._listening: set[asyncio.Task[None]] = set()

    async def about(self) -> Any:
        return {"capabilities": plain(self._client.server_capabilities)}

    async def tools(self) -> Any:
        return plain(await self._client.list_tools())["tools"]

    async def resources(self) -> Any:
        return plain(await self._client.list_resources())["resources"]

    async def templates(self) -> Any:
        return plain(await self._client.list_resource_templates())["resourceTemplates"]

    async def prompts(self) -> Any:
        return plain(await self._client.list_prompts())["prompts"]

    async def read(self, uri: str) -> Any:
        return plain(await self._client.read_resource(uri))["contents"]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return plain(await self._client.get_prompt(name, arguments))["messages"]

    async def complete(self, ref: dict[str, Any], argument: dict[str, str]) -> Any:
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return plain(await self._client.complete(kind(**ref), argument))["completion"]["values"]

    async def subscribe(self, uri: str) -> None:
        """Subscribe, or listen where there are no subscriptions any more."""
        if self._client.protocol_version < "2026":
            await self._client.subscribe_resource(uri)
            return
        has_begun = asyncio.Event()
        self._listening.add(asyncio.create_task(self._listen(uri, has_begun)))
        await has_begun.wait()

    async def _listen(self, uri: str, has_begun: asyncio.Event) -> None:
        async with self._client.listen(resource_subscriptions=[uri]) as subscription:
            has_begun.set()
            async for event in subscription:
                tell(heard="notifications/resources/updated", params={"uri": getattr(event, "uri", None)})

    async def level(self, level: Any) -> None:
        await self._client.set_logging_level(level)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return plain(await self._client.call_tool(name, arguments, progress_callback=progressed))

    async def give_up(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call, and no longer wait when it is said how far it is."""
        has_begun = asyncio.Event()

        async def begun(*_: Any, **__: Any) -> None:
            has_begun.set()

        calling = asyncio.create_task(self._client.call_tool(name, arguments, progress_callback=begun))
        await has_begun.wait()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        return {"isOver": not calling.cancelled()}

    def all(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in vars(Verbs) if not name.startswith("_")}


def refused(error: Exception) -> Any:
    return plain(error.error) if isinstance(error, MCPError) else None


async def main(root: str, mode: Any, *target: str) -> None:
    is_url = target[0].startswith("http")
    server = target[0] if is_url else StdioServerParameters(command=target[0], args=list(target[1:]))
    answers = Answers(root)
    async with Client(
        server,
        mode=mode,
        log_level="debug",
        elicitation_callback=answers.elicit,
        sampling_callback=answers.sample,
        list_roots_callback=answers.roots,
        message_handler=heard,
    ) as client:
        await serve(Verbs(client).all(), refused)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
