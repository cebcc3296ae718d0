"""Who may use what: decided before there is a task, and in every list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import CompleteRequestParams, Completion
from pydantic import Field

from coatcheck import Status
from coatcheck.server import Access, Principal, Rate, Tasks, TaskServer, role, signed_in, when
from tests.access.people import callers, guarded
from tests.requirements.marks import requirement
from tests.server.wire import PATIENCE, OverHTTP, in_memory, over_http

pytestmark = pytest.mark.anyio

FORBIDDEN = -31403


def of_own_team(caller: Principal, arguments: Mapping[str, Any]) -> bool:
    return arguments["team"] in caller.claims.get("teams", ())


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def server(ran: list[str]) -> TaskServer:
    """What editors, teams and everyone may do."""
    server = guarded()

    @server.tool(task=True, authorize=role("editor"))
    async def edit(text: str) -> str:
        ran.append(text)
        return text

    @server.tool(task=True, authorize=role("admin") | when(of_own_team))
    async def pay(team: str = "red", amount: int = 1) -> str:
        ran.append(team)
        return team

    @server.tool(authorize=role("editor"))
    async def quick() -> str:
        ran.append("quick")
        return "quick"

    @server.tool(task=True)
    async def everyone() -> str:
        return "hello"

    _add_contents(server)
    return server


def _add_contents(server: TaskServer) -> None:
    @server.resource("docs://plan", authorize=role("editor"))
    def plan() -> str:
        return "the plan"

    @server.resource("docs://open")
    def open_page() -> str:
        return "open"

    @server.resource("teams://{team}/notes", authorize=of_own_team)
    def notes(team: str) -> str:
        return f"notes of {team}"

    @server.resource("drafts://{name}", authorize=role("editor"))
    def draft(name: str) -> str:
        return name

    @server.prompt(authorize=role("editor"))
    def rewrite(text: str) -> str:
        return f"Rewrite {text}"

    @server.prompt(authorize=of_own_team)
    def summary(team: str) -> str:
        return f"Summarise {team}"

    @server.prompt()
    def greeting() -> str:
        return "Say hello"

    @server.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        return Completion(values=["a secret"])


async def _code(caller: OverHTTP, method: str, **params: Any) -> int:
    with pytest.raises(MCPError) as refused:
        await caller.request(method, params)
    return refused.value.code


async def _unfinished(caller: OverHTTP) -> int:
    return len(await caller.tasks.running.engine.list_all())


@requirement("F-057", "F-062")
@pytest.mark.parametrize("tool", ["edit", "quick"])
async def test_a_call_its_caller_may_not_make_is_refused_before_there_is_a_task(
    server: TaskServer, ran: list[str], tool: str
) -> None:
    async with callers(server) as (_, bob, _eve):
        arguments = {"text": "x"} if tool == "edit" else {}
        assert await _code(bob, "tools/call", name=tool, arguments=arguments) == FORBIDDEN
        assert await _unfinished(bob) == 0
    assert ran == []


async def test_a_refusal_says_what_to_do_and_nothing_of_the_rule(server: TaskServer) -> None:
    async with callers(server) as (_, bob, _eve):
        with pytest.raises(MCPError) as refused:
            await bob.call("edit", text="x")
    assert refused.value.message == "You may not use the tool 'edit'; ask whoever runs this server for the right to."


async def test_who_may_call_gets_a_task(server: TaskServer) -> None:
    async with callers(server) as (ann, _, _eve):
        created = await ann.call("edit", text="x")
        assert created["resultType"] == "task"


async def test_wrong_arguments_of_someone_who_may_not_call_at_all_are_not_looked_at(server: TaskServer) -> None:
    async with callers(server) as (_, bob, _eve):
        assert await _code(bob, "tools/call", name="edit", arguments={"wrong": 1}) == FORBIDDEN


async def test_a_rule_sees_the_arguments_as_the_tool_gets_them(server: TaskServer, ran: list[str]) -> None:
    async with callers(server) as (ann, bob, _eve):
        assert (await ann.call("pay"))["resultType"] == "task"  # by default it is red, which is ann's
        assert await _code(bob, "tools/call", name="pay", arguments={}) == FORBIDDEN
        assert await _code(ann, "tools/call", name="pay", arguments={"team": "blue"}) == FORBIDDEN
        assert (await bob.call("pay", team="blue"))["resultType"] == "task"


async def test_arguments_that_are_wrong_are_refused_as_ever_for_those_who_may_call(server: TaskServer) -> None:
    async with callers(server) as (ann, _, _eve):
        answer = await ann.call("pay", amount="much")
        assert answer["isError"]
        assert await _unfinished(ann) == 0


@requirement("F-062")
async def test_lists_show_what_their_reader_may_use(server: TaskServer) -> None:
    async with callers(server, **{}) as (ann, bob, eve):
        seen = {
            name: {
                "tools": [tool["name"] for tool in (await caller.request("tools/list", {}))["tools"]],
                "resources": [item["uri"] for item in (await caller.request("resources/list", {}))["resources"]],
                "templates": [
                    item["uriTemplate"]
                    for item in (await caller.request("resources/templates/list", {}))["resourceTemplates"]
                ],
                "prompts": [item["name"] for item in (await caller.request("prompts/list", {}))["prompts"]],
            }
            for name, caller in (("ann", ann), ("bob", bob), ("eve", eve))
        }
    everything = {
        "tools": ["edit", "pay", "quick", "everyone"],
        "resources": ["docs://plan", "docs://open"],
        "templates": ["teams://{team}/notes", "drafts://{name}"],
        "prompts": ["rewrite", "summary", "greeting"],
    }
    less = {
        "tools": ["pay", "everyone"],
        "resources": ["docs://open"],
        "templates": ["teams://{team}/notes"],
        "prompts": ["summary", "greeting"],
    }
    assert seen == {"ann": everything, "bob": less, "eve": less}


async def test_lists_that_depend_on_their_reader_are_not_for_shared_caches(server: TaskServer) -> None:
    async with callers(server) as (ann, _, _eve):
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            assert (await ann.request(method, {})).get("cacheScope", "private") == "private"


RESOURCES = {
    "docs://plan": (True, False),
    "docs://open": (True, True),
    "teams://red/notes": (True, False),
    "teams://blue/notes": (False, True),
    "drafts://x": (True, False),
}


@requirement("F-062")
@pytest.mark.parametrize("uri", RESOURCES)
async def test_a_resource_is_read_by_those_its_rule_allows(server: TaskServer, uri: str) -> None:
    async with callers(server) as people:
        for caller, may in zip(people, RESOURCES[uri], strict=False):
            if may:
                assert (await caller.request("resources/read", {"uri": uri}))["contents"]
            else:
                assert await _code(caller, "resources/read", uri=uri) == FORBIDDEN


@requirement("F-062")
async def test_a_prompt_is_used_by_those_its_rule_allows(server: TaskServer) -> None:
    async with callers(server) as (ann, bob, _eve):
        rewrite: dict[str, Any] = {"name": "rewrite", "arguments": {"text": "x"}}
        blue: dict[str, Any] = {"name": "summary", "arguments": {"team": "blue"}}
        assert (await ann.request("prompts/get", rewrite))["messages"]
        assert (await bob.request("prompts/get", blue))["messages"]
        assert await _code(bob, "prompts/get", **rewrite) == FORBIDDEN
        assert await _code(ann, "prompts/get", **blue) == FORBIDDEN


@pytest.mark.parametrize(
    "ref", [{"type": "ref/prompt", "name": "rewrite"}, {"type": "ref/resource", "uri": "drafts://{name}"}]
)
async def test_what_may_not_be_used_is_not_completed(server: TaskServer, ref: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"ref": ref, "argument": {"name": "text", "value": ""}}
    CompleteRequestParams.model_validate(asked)
    async with callers(server) as (ann, bob, _eve):
        assert (await ann.request("completion/complete", asked))["completion"]["values"] == ["a secret"]
        assert await _code(bob, "completion/complete", **asked) == FORBIDDEN


async def test_a_stream_does_not_tell_of_resources_its_listener_may_not_read(server: TaskServer) -> None:
    wanted = ["docs://plan", "docs://open", "teams://blue/notes"]
    async with callers(server) as (_, bob, _eve), bob.listening(resourceSubscriptions=wanted) as stream:
        acknowledged = await stream.message()
        assert acknowledged["params"]["notifications"]["resourceSubscriptions"] == wanted[1:]


async def test_a_rule_of_the_server_is_for_all_that_have_none(ran: list[str]) -> None:
    server = guarded(access=Access(authorize=role("editor")))

    @server.tool(task=True)
    async def guarded_by_default() -> str:
        return "done"

    @server.tool(task=True, authorize=signed_in())
    async def for_all() -> str:
        return "done"

    async with callers(server) as (ann, bob, _eve):
        assert (await ann.call("guarded_by_default"))["resultType"] == "task"
        assert (await bob.call("for_all"))["resultType"] == "task"
        for name in ("guarded_by_default", "made_up"):  # what there is cannot be told from what there is not
            assert await _code(bob, "tools/call", name=name, arguments={}) == FORBIDDEN


async def test_the_tools_for_tickets_are_for_everybody() -> None:
    server = guarded(access=Access(authorize=role("editor")))

    @server.tool(task=True, authorize=signed_in())
    async def slow() -> str:
        return "done"

    async with callers(server) as (_, bob, _eve):
        answer = await bob.again({}, "bob").call("list_tasks")
        assert answer["structuredContent"] == {"tasks": []}


async def test_rules_hold_for_callers_without_a_name_on_every_way_through_http(ran: list[str]) -> None:
    """A plain hand-in of an anonymous caller would take a shorter way past the SDK."""
    server = TaskServer("test", store="memory://")

    @server.tool(task=True, authorize=signed_in())
    async def secret() -> str:
        ran.append("secret")
        return "done"

    async with over_http(server) as anyone:
        assert await _code(anyone, "tools/call", name="secret", arguments={}) == FORBIDDEN
    assert ran == []


async def test_a_tool_that_is_removed_takes_its_rule_with_it() -> None:
    server = guarded()

    async def tool() -> str:
        return "done"

    server.add_tool(tool, task=True, authorize=role("nobody"))
    server.remove_tool("tool")
    server.add_tool(tool, task=True)
    async with callers(server) as (ann, _, _eve):
        assert (await ann.call("tool"))["resultType"] == "task"


async def test_a_server_that_is_no_task_server_has_rules_too(ran: list[str]) -> None:
    tasks = Tasks("memory://")
    server = MCPServer[Any]("test", extensions=[tasks], lifespan=tasks.lifespan)

    @server.tool()
    @tasks.tool(authorize=when(lambda caller, arguments: arguments["n"] < 3))
    async def count(n: int) -> int:
        ran.append("count")
        return n

    async with in_memory(server, tasks) as client:
        assert (await client.call("count", n="2"))["resultType"] == "task"
        with pytest.raises(MCPError) as refused:
            await client.call("count", n="3")
    assert refused.value.code == FORBIDDEN


# The arguments as they will be


async def _none_left_out(team: str = "red") -> str:
    return team


async def test_a_rule_of_a_prompt_sees_the_arguments_that_are_left_out() -> None:
    server = guarded()

    @server.prompt(authorize=of_own_team)
    def summary(team: str = Field("red", description="Whose"), length: str = "short") -> str:
        return f"Summarise {team}"

    async with callers(server) as (ann, bob, _eve):
        assert (await ann.request("prompts/get", {"name": "summary"}))["messages"]
        assert await _code(bob, "prompts/get", name="summary") == FORBIDDEN
        assert (await bob.request("prompts/get", {"name": "summary", "arguments": {"team": "blue"}}))["messages"]


async def test_a_rule_of_a_template_sees_the_parameters_that_are_left_out() -> None:
    server = guarded()

    @server.resource("notes://{name}{?team}", authorize=of_own_team)
    def notes(name: str, team: str = "red") -> str:
        return f"{name} of {team}"

    async with callers(server) as (ann, bob, _eve):
        assert (await ann.request("resources/read", {"uri": "notes://x"}))["contents"]
        assert await _code(bob, "resources/read", uri="notes://x") == FORBIDDEN
        assert (await bob.request("resources/read", {"uri": "notes://x?team=blue"}))["contents"]
        assert await _code(ann, "resources/read", uri="notes://x?team=blue") == FORBIDDEN


async def test_the_rule_of_a_server_sees_the_arguments_as_the_tool_gets_them() -> None:
    server = guarded(access=Access(authorize=of_own_team))
    server.add_tool(_none_left_out, "pay", task=True)
    server.prompt("ask")(_none_left_out)
    async with callers(server) as (ann, bob, _eve):
        assert (await ann.call("pay"))["resultType"] == "task"
        assert (await ann.request("prompts/get", {"name": "ask"}))["messages"]
        assert await _code(bob, "tools/call", name="pay", arguments={}) == FORBIDDEN
        assert await _code(bob, "prompts/get", name="ask") == FORBIDDEN


async def test_a_uri_is_completed_by_those_who_may_use_the_template_it_is_of(server: TaskServer) -> None:
    asked: dict[str, Any] = {"argument": {"name": "name", "value": ""}}
    async with callers(server) as (_, bob, _eve):
        ref = {"type": "ref/resource", "uri": "drafts://x"}
        assert await _code(bob, "completion/complete", ref=ref, **asked) == FORBIDDEN


# While it runs


async def test_a_tool_may_come_with_a_rule_and_go_again_while_the_server_runs() -> None:
    server = guarded()
    async with callers(server) as (ann, bob, _eve):
        assert (await bob.call("late")).get("isError")
        server.add_tool(_none_left_out, "late", task=True, authorize=role("editor"), rate=Rate(1, per=3600))
        assert await _code(bob, "tools/call", name="late", arguments={}) == FORBIDDEN
        assert (await ann.call("late"))["resultType"] == "task"
        assert await _code(ann, "tools/call", name="late", arguments={}) == -31429
        server.remove_tool("late")
        assert (await bob.call("late")).get("isError")


async def test_a_rule_is_asked_when_the_call_is_made_and_not_again_when_its_task_runs() -> None:
    server, asked = guarded(), list[Principal]()

    @server.tool(task=True, authorize=when(lambda caller, _: not asked.append(caller)))
    async def work() -> str:
        return "done"

    async with callers(server) as (ann, _, _eve):
        engine = ann.tasks.running.engine
        task = await engine.get(await ann.hand_in("work"), '["app","https://issuer.example","ann"]')
        assert (await engine.finished(task, PATIENCE)).status is Status.COMPLETED
    assert [caller.subject for caller in asked] == ["ann"]


@pytest.mark.parametrize("is_anonymous", [True, False])
async def test_a_server_that_was_not_given_the_lifespan_of_its_tasks_lets_nobody_past_a_rule(
    ran: list[str], *, is_anonymous: bool
) -> None:
    tasks = Tasks("memory://")
    server = MCPServer[Any]("test", extensions=[tasks])

    @server.tool()
    @tasks.tool(None, authorize=signed_in() if is_anonymous else None, rate=Rate(1))
    async def secret() -> str:
        ran.append("secret")
        return "done"

    async with Client(server) as client:
        with pytest.raises(MCPError):
            await client.call_tool("secret", {})
    assert ran == []
