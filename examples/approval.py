"""A tool that asks a person before it goes on. The answer may take days: the question is kept with the task."""

import asyncio
from tempfile import TemporaryDirectory

from coatcheck import Status, TaskContext, Worker, decode, open_engine, tool

FORM = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string"}},
    "required": ["approved"],
}


async def deploy(ctx: TaskContext, version: str) -> str:
    answer = await ctx.elicit(f"Deploy version {version} to production?", FORM)
    if answer["action"] != "accept" or not answer["content"]["approved"]:
        return f"{version} was not deployed"
    return f"{version} is live: {answer['content']['comment']}"


async def main(folder: str) -> None:
    tools = [tool(deploy, resumable=True)]
    async with open_engine(f"sqlite:///{folder}/tasks.db") as engine, Worker(engine, tools) as worker:
        task = await worker.submit("deploy", {"version": "2.1"}, owner="ann")
        while task.status is Status.WORKING:
            task = await engine.wait(task, timeout=10)

        for key, question in task.input_requests.items():
            print("asked:   ", decode(question.params)["message"])
            answer = {"action": "accept", "content": {"approved": True, "comment": "all tests are green"}}
            print("answered:", answer["content"])
            await engine.answer(task.id, "ann", {key: answer})

        task = await engine.finished(task, timeout=10)
        print("result:  ", decode(task.result))


with TemporaryDirectory() as folder:
    asyncio.run(main(folder))
