"""Tasks without MCP: hand in a slow call from plain Python, come back for its result."""

import asyncio

from coatcheck import TaskContext, Worker, decode, open_engine, tool


async def count_words(ctx: TaskContext, pages: int) -> dict[str, int]:
    words = 0
    for page in range(1, pages + 1):
        words += await ctx.step("read", read_page, page)  # recorded: not read again if the work is resumed
        await ctx.progress(page, pages)
    return {"words": words}


async def read_page(page: int) -> int:
    await asyncio.sleep(0.05)  # stands for something slow
    return 100 * page


async def main() -> None:
    tools = [tool(count_words, resumable=True)]
    async with open_engine("sqlite:///tasks.db") as engine, Worker(engine, tools) as worker:
        ticket = await worker.submit("count_words", {"pages": 3}, owner="ann")  # on disk from here on
        print(ticket.status)
        task = await engine.finished(ticket, timeout=60)
        print(task.status, decode(task.result))


if __name__ == "__main__":
    asyncio.run(main())
