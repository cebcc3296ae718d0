"""The tutorial server: four tools, one idea each.

coatcheck serve examples/server.py:server
"""

import asyncio
import logging
import os
from tempfile import TemporaryFile
from typing import Any

from mcp.server.mcpserver import Context
from pydantic import BaseModel

from coatcheck.server import SyncContext, TaskContext, TaskPolicy, TaskServer

logger = logging.getLogger("tutorial")
server = TaskServer("tutorial", task=TaskPolicy(poll_interval=0.2))  # for all tools that do not say otherwise


# 1. Progress. A task for clients that can, a plain call for all others; the body does not know which.


@server.tool(task=True)
async def report(pages: int, ctx: Context) -> str:
    """Write a report, and tell how far it is."""
    for page in range(1, pages + 1):
        await asyncio.sleep(0.25)  # stands for something slow
        await ctx.report_progress(page, pages, f"Wrote page {page}")
    return f"A report of {pages} pages"


# 2. Questions. The SDK's own `elicit`; the question is kept with the task, so the answer may take days.


class Approval(BaseModel):
    approved: bool
    comment: str = ""


@server.tool(task=TaskPolicy("required", resumable=True))
async def deploy(version: str, ctx: Context) -> str:
    """Ask a person before anything happens."""
    answer = await ctx.elicit(f"Deploy {version} to production?", Approval)
    match answer.action:
        case "accept" if answer.data.approved:
            return f"{version} is live: {answer.data.comment}"
        case "accept" | "decline":
            return f"{version} stays where it is"
        case "cancel":
            return f"Nobody decided about {version}; ask again"


# 3. Cancelling. A plain function runs in a thread, and a thread cannot be killed: it looks up now and then.


@server.tool(task=True)
def primes(below: int, task: SyncContext) -> int:
    """Count prime numbers, the slow way. Made to be cancelled."""
    with TemporaryFile() as found:  # whether it ends or is stopped, `with` and `finally` clean up
        for number in range(2, below):
            task.check()  # raises once the task is cancelled
            if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
                found.write(b".")
        return found.tell()


# 4. Outliving the server. Resumable work is run again from the top; what was a step is not done again.


@server.tool(task=TaskPolicy("required", resumable=True))
async def measure(cities: list[str], task: TaskContext) -> list[dict[str, Any]]:
    """Measure the temperature of each city, once, whatever happens to this server."""
    rows: list[dict[str, Any]] = []
    for number, city in enumerate(cities, start=1):
        rows.append(await task.step(city, thermometer, city))  # on disk when it returns
        await task.output(rows[-1])  # a part of the result, kept in order with the task
        await task.progress(number, len(cities), f"Measured {city}")
    return rows


async def thermometer(city: str) -> dict[str, Any]:
    await asyncio.sleep(0.5)
    logger.info("measured %s", city)
    return {"city": city, "celsius": sum(city.encode()) % 40, "process": os.getpid()}
