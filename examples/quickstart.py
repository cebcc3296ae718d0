"""The README's server: one tool that takes its time."""

import asyncio

from mcp.server.mcpserver import Context

from coatcheck.server import TaskServer

server = TaskServer("books")


@server.tool(task=True)
async def count_words(pages: int, ctx: Context) -> int:
    """Count the words of a book."""
    words = 0
    for page in range(1, pages + 1):
        await asyncio.sleep(0.5)  # stands for something slow
        words += 100 * page
        await ctx.report_progress(page, pages, f"Read page {page}")
    return words
