"""A client for any MCP server. To try it, in two terminals:

coatcheck serve examples/server.py:server
python examples/client.py http://127.0.0.1:8000/mcp report '{"pages": 5}'
"""

import asyncio
import json
import sys

from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from coatcheck import Client, Snapshot


async def ask(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Put what a tool asks to whoever sits at the terminal."""
    print(params.message)
    answer = await asyncio.to_thread(input, "Answer in JSON, or with nothing to decline: ")
    return ElicitResult(action="accept", content=json.loads(answer)) if answer else ElicitResult(action="decline")


def show(task: Snapshot) -> None:
    print(f"{task.status.value}: {task.message or ''}")


async def main(url: str, tool: str | None = None, arguments: str = "{}") -> None:
    async with Client(url, elicitation_callback=ask) as client:
        for handle in await client.resume():  # whatever an earlier run did not live to see
            print(f"from before, {handle.tool}: {(await handle).data}")
        if tool is None:
            for known in await client.tools():
                print(f"{known.name}: {known.description}")
        else:
            result = await client.call(tool, json.loads(arguments), on_change=show)
            print(result.structured_content or result.text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
