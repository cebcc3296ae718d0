"""Who may see a task: its owner, on every request; and where nobody is known, whoever has its id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from pydantic import AnyHttpUrl, BaseModel

from coatcheck import Policy
from coatcheck.server import TaskContext, TaskPolicy, TaskServer
from tests.requirements.marks import requirement
from tests.server.wire import OverHTTP, in_memory, over_http

pytestmark = pytest.mark.anyio

METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
USERS = {
    "ann": ("app", "ann"),
    "ann-again": ("app", "ann"),
    "bob": ("app", "bob"),
    "ann-elsewhere": ("another app", "ann"),
    "app": ("app", None),
    "long": ("app", "x" * 1000),
    "odd": ("app", "\u2028\u0000\n"),
}


class Verifier:
    async def verify_token(self, token: str) -> AccessToken | None:
        if token not in USERS:
            return None
        client, subject = USERS[token]
        return AccessToken(
            token=token, client_id=client, scopes=[], subject=subject, claims={"iss": "https://issuer.example"}
        )


class Name(BaseModel):
    name: str


@pytest.fixture
def guarded() -> TaskServer:
    """A server that knows its callers by their token."""
    server = TaskServer(
        "test",
        version="1",
        store="memory://",
        policy=Policy(quota=2),
        token_verifier=Verifier(),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl("https://issuer.example"),
            resource_server_url=AnyHttpUrl("http://127.0.0.1:8000/mcp"),
            validate_token_resource=False,
        ),
    )

    @server.tool(task=True)
    async def endless() -> None:
        await asyncio.Event().wait()

    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Who?", Name)).action

    return server


@pytest.fixture
async def http(guarded: TaskServer) -> AsyncGenerator[OverHTTP]:
    made: list[tuple[str, str]] = []

    class Remembering(OverHTTP):
        def again(self, capabilities: Any = None, token: str | None = None) -> OverHTTP:
            caller = Remembering(self.app, self.tasks, capabilities or self.capabilities, token)
            caller.user = token or ""
            return caller

        async def hand_in(self, tool: str, /, **arguments: Any) -> str:
            task_id = await super().hand_in(tool, **arguments)
            made.append((task_id, self.user))
            return task_id

        user = ""

    async with over_http(guarded) as caller:
        yield Remembering(caller.app, caller.tasks)
        for task_id, user in made:
            await caller.again(token=user).cancel(task_id)


async def _refusal(caller: OverHTTP, method: str, task_id: str) -> tuple[int, str, Any]:
    answers: dict[str, Any] = {"inputResponses": {}} if method == "tasks/update" else {}
    with pytest.raises(MCPError) as refused:
        await caller.request(method, {"taskId": task_id, **answers})
    return refused.value.code, refused.value.message, refused.value.error.data


@requirement("S-069", "ER-3", "R-10")
async def test_an_owner_reaches_a_task_with_any_token_that_says_the_same(http: OverHTTP) -> None:
    task_id = await http.again(token="ann").hand_in("endless")
    assert (await http.again(token="ann-again").get(task_id))["status"] == "working"
    await http.again(token="ann-again").cancel(task_id)
    assert (await http.again(token="ann").get(task_id))["status"] == "cancelled"


@requirement("S-069", "ER-3", "R-10", "R-27", "S-045", "S-051", "S-061")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stranger", ["bob", "ann-elsewhere", "app", "long", "odd"])
async def test_a_foreign_task_is_refused_in_the_same_words_as_an_unknown_one(
    http: OverHTTP, stranger: str, method: str
) -> None:
    task_id = await http.again(token="ann").hand_in("endless")
    other = http.again(token=stranger)
    assert await _refusal(other, method, task_id) == await _refusal(other, method, "no such task")
    assert (await http.again(token="ann").get(task_id))["status"] == "working"


@requirement("R-27")
async def test_a_foreign_task_is_answered_with_the_very_bytes_of_an_unknown_one(http: OverHTTP) -> None:
    task_id = await http.again(token="ann").hand_in("endless")
    foreign, unknown = [
        await other.post(other.message("tasks/get", {"taskId": wanted}))
        for other, wanted in ((http.again(token="bob"), task_id), (http.again(token="bob"), "x" * len(task_id)))
    ]
    assert foreign == unknown


@requirement("ER-3")
async def test_a_stranger_cannot_answer_a_question(http: OverHTTP) -> None:
    ann = http.again(token="ann")
    task_id = await ann.hand_in("ask")
    polled = await _asked(ann, task_id)
    (key,) = polled["inputRequests"]
    with pytest.raises(MCPError):
        await http.again(token="bob").update(task_id, {key: {"action": "decline"}})
    assert await ann.get(task_id) == polled


async def _asked(caller: OverHTTP, task_id: str) -> dict[str, Any]:
    async with caller.listening(task_id) as stream:
        await stream.start()
        while True:
            told = await stream.message()
            if told.get("params", {}).get("status") == "input_required":
                return await caller.get(task_id)


@requirement("S-054", "ER-3", "R-18")
async def test_a_stranger_is_not_told_of_a_task(http: OverHTTP) -> None:
    task_id = await http.again(token="ann").hand_in("endless")
    bob = http.again(token="bob")
    own = await bob.hand_in("endless")
    async with bob.listening(task_id, own) as stream:
        await stream.start()
        acknowledged = await stream.message()
        assert acknowledged["params"]["notifications"]["taskIds"] == [own]
        await http.again(token="ann").cancel(task_id)
        await bob.cancel(own)
        told = [await stream.message(), await stream.message()]
    assert {message["params"]["taskId"] for message in told} == {own}


@requirement("S-069")
@pytest.mark.parametrize("token", [None, "nobody"])
async def test_a_request_without_a_good_token_gets_nowhere(http: OverHTTP, token: str | None) -> None:
    task_id = await http.again(token="ann").hand_in("endless")
    other = http.again(token=token)
    for method in METHODS:
        answer = await other.post(other.message(method, {"taskId": task_id, "inputResponses": {}}))
        assert answer.status == 401
        assert task_id.encode() not in answer.body


@requirement("R-10")
@pytest.mark.parametrize("user", ["long", "odd", "app"])
async def test_any_principal_may_own_tasks(http: OverHTTP, user: str) -> None:
    caller = http.again(token=user)
    task_id = await caller.hand_in("endless")
    assert (await caller.get(task_id))["status"] == "working"


@requirement("R-10")
async def test_an_owner_is_made_of_client_issuer_and_subject(http: OverHTTP, guarded: TaskServer) -> None:
    task_id = await http.again(token="ann").hand_in("endless")
    owner = json.dumps(["app", "https://issuer.example", "ann"], separators=(",", ":"))
    assert (await guarded.tasks.running.engine.get(task_id, owner)).owner == owner


async def test_a_tool_can_tell_whose_task_it_works_on(http: OverHTTP, guarded: TaskServer) -> None:
    owners: list[str | None] = []
    looked = asyncio.Event()

    @guarded.tool(task=True)
    async def look(task: TaskContext) -> None:
        owners.append(task.task.owner)
        looked.set()

    await http.again(token="ann").hand_in("look")
    await looked.wait()
    assert owners == ['["app","https://issuer.example","ann"]']


async def test_one_owner_cannot_use_up_what_another_may_have(http: OverHTTP) -> None:
    ann, bob = http.again(token="ann"), http.again(token="bob")
    for _ in range(2):
        await ann.hand_in("endless")
    with pytest.raises(MCPError, match="You already have 2 unfinished tasks"):
        await ann.hand_in("endless")
    await bob.hand_in("endless")


@requirement("T-07", "R-10")
async def test_where_nobody_is_known_an_id_is_enough(server: TaskServer) -> None:
    @server.tool(task=True)
    async def endless() -> None:
        await asyncio.Event().wait()

    async with over_http(server) as caller, in_memory(server) as other:
        task_id = await caller.hand_in("endless")
        assert (await other.get(task_id))["status"] == "working"


@requirement("R-10")
async def test_what_an_anonymous_caller_says_about_itself_does_not_count(server: TaskServer) -> None:
    @server.tool(task=True)
    async def endless() -> None:
        await asyncio.Event().wait()

    info = {"io.modelcontextprotocol/clientInfo": {"name": "ann", "version": "1"}}
    async with over_http(server) as caller:
        created = await caller.request("tools/call", {"name": "endless", "arguments": {}, "_meta": info})
        assert (await server.tasks.running.engine.get(created["taskId"])).owner is None


@requirement("R-27", "S-024")
async def test_polls_of_foreign_tasks_are_refused_as_unknown_ones_are_however_many(guarded: TaskServer) -> None:
    server = TaskServer("test", store="memory://", token_verifier=Verifier(), auth=guarded.settings.auth, poll_limit=1)

    @server.tool(task=TaskPolicy("optional", poll_interval=60))
    async def endless() -> None:
        await asyncio.Event().wait()

    async with over_http(server) as caller:
        ann, bob = caller.again(token="ann"), caller.again(token="bob")
        task_id = await ann.hand_in("endless")
        for unseen in (task_id, "unknown"):
            for _ in range(30):
                code, message, data = await _refusal(bob, "tasks/get", unseen)
                assert (code, message, data) == (-32602, "Failed to retrieve task: Task not found", None)
        await ann.get(task_id)  # what others ask for does not count
        await ann.cancel(task_id)
