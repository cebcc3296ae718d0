"""Every client against every server: what is listed, read, called, asked, told and cancelled through the proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.proxy.foreign.callers import CLIENTS, Caller, at_once, text_of
from tests.proxy.foreign.proxies import SLOW
from tests.proxy.foreign.puppets import Refused

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("client", CLIENTS, indirect=True)]

LONG = "everything__trigger-long-running-operation"
TEXT = "demo://resource/dynamic/text/1"
PREFIXED = f"everything+{TEXT}"


# What there is


def test_every_tool_is_listed_with_its_schema(client: Caller) -> None:
    tools = {tool["name"]: tool for tool in client.puppet.do("tools")}
    required = {name: set(tools[name]["inputSchema"].get("required", ())) for name in tools if "__" in name}
    assert required["everything__echo"] == {"message"}
    assert required["files__read_text_file"] == {"path"}
    assert required["fastmcp__add"] == required["tasks__add"] == required["plain__add"] == {"a", "b"}
    [own, ticket] = tools["files__read_text_file"]["outputSchema"]["anyOf"]
    assert (own["required"], ticket["title"]) == (["content"], "Ticket")
    assert tools["files__write_file"]["annotations"]["destructiveHint"] is True
    assert tools["everything__echo"]["title"] == "Echo Tool"


def test_tools_that_depend_on_what_the_client_can_do_are_there(client: Caller) -> None:
    names = {tool["name"] for tool in client.puppet.do("tools")}
    assert {
        "everything__get-roots-list",
        "everything__trigger-elicitation-request",
        "everything__trigger-sampling-request",
    } <= names


def test_resources_templates_and_prompts_are_listed_under_their_servers_name(client: Caller) -> None:
    resources = {resource["uri"]: resource["name"] for resource in client.puppet.do("resources")}
    assert resources["everything+demo://resource/static/document/features.md"] == "everything__features.md"
    templates = {template["uriTemplate"] for template in client.puppet.do("templates")}
    assert "everything+demo://resource/dynamic/text/{resourceId}" in templates
    prompts = {prompt["name"]: prompt for prompt in client.puppet.do("prompts")}
    assert [each["name"] for each in prompts["everything__args-prompt"]["arguments"]] == ["city", "state"]


@pytest.mark.parametrize("uri", [PREFIXED, TEXT], ids=["prefixed", "raw"])
def test_a_resource_is_read_by_the_uri_it_is_shown_under_and_by_its_own(client: Caller, uri: str) -> None:
    [contents] = client.puppet.do("read", uri=uri)
    assert contents["uri"] == uri
    assert contents["text"].startswith("Resource 1: ")


def test_a_resource_that_is_not_there_is_refused(client: Caller) -> None:
    with pytest.raises(Refused, match="nothing"):
        client.puppet.do("read", uri="everything+demo://nothing")


def test_a_prompt_is_filled_in_and_its_arguments_are_completed(client: Caller) -> None:
    [message] = client.puppet.do("prompt", name="everything__args-prompt", arguments={"city": "Paris"})
    assert message["content"]["text"] == "What's weather in Paris?"
    ref = {"type": "ref/prompt", "name": "everything__completable-prompt"}
    completed = client.puppet.do("complete", ref=ref, argument={"name": "department", "value": "S"})
    assert completed == ["Sales", "Support"]


def test_a_template_is_completed(client: Caller) -> None:
    ref = {"type": "ref/resource", "uri": "everything+demo://resource/dynamic/text/{resourceId}"}
    assert client.puppet.do("complete", ref=ref, argument={"name": "resourceId", "value": "7"}) == ["7"]


# Calls


def test_a_quick_call_is_answered_with_its_result(client: Caller, root: Path) -> None:
    calls: dict[str, dict[str, Any]] = {
        "everything__get-sum": {"a": 2, "b": 3},
        "files__read_text_file": {"path": str(root / "note.txt")},
        "fastmcp__add": {"a": 2, "b": 3},
        "tasks__add": {"a": 2, "b": 3},
        "plain__add": {"a": 2, "b": 3},
    }
    results = {name: client.puppet.call(name, **arguments) for name, arguments in calls.items()}
    assert [text_of(result) for result in results.values()] == [
        "The sum of 2 and 3 is 5.",
        "Buy hats",
        "5",
        "5",
        "5",
    ]
    assert not any(result.get("isError") for result in results.values())
    assert results["files__read_text_file"]["structuredContent"] == {"content": "Buy hats"}
    assert results["fastmcp__add"]["structuredContent"] == {"result": 5}


def test_content_of_every_kind_comes_as_it_is(client: Caller) -> None:
    [_, image, _] = client.puppet.call("everything__get-tiny-image")["content"]
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    [_, embedded, _] = client.puppet.call("everything__get-resource-reference", resourceType="Text", resourceId=1)[
        "content"
    ]
    assert embedded["resource"]["uri"] == TEXT
    [annotated] = client.puppet.call("everything__get-annotated-message", messageType="error")["content"]
    assert annotated["annotations"] == {"audience": ["user", "assistant"], "priority": 1}
    weather = client.puppet.call("everything__get-structured-content", location="Chicago")["structuredContent"]
    assert weather["conditions"] == "Light rain / drizzle"


def test_a_resource_that_a_call_made_is_linked_listed_and_read(client: Caller) -> None:
    told = {"name": f"{client.kind}.gz", "data": "data:text/plain;base64,SGF0cw==", "outputType": "resourceLink"}
    [link] = client.puppet.do("call", name="everything__gzip-file-as-resource", arguments=told)["content"]
    assert link["type"] == "resource_link"
    [linked] = client.puppet.do("read", uri=link["uri"])
    assert f"everything+{link['uri']}" in {resource["uri"] for resource in client.puppet.do("resources")}
    [listed] = client.puppet.do("read", uri=f"everything+{link['uri']}")
    assert listed["blob"] == linked["blob"]


def test_slow_calls_become_tasks_or_tickets_and_nothing_is_lost(client: Caller) -> None:
    calls = {
        name: lambda name=name: client.collect(f"{name}__slow", seconds=SLOW) for name in ("fastmcp", "tasks", "plain")
    }
    seen = at_once({**calls, "everything": lambda: client.collect(LONG, duration=SLOW, steps=5)})
    assert {name: each["kind"] for name, each in seen.items()} == dict.fromkeys(seen, client.way)
    assert {name: text_of(each["result"]) for name, each in seen.items()} == {
        "fastmcp": f"It took {SLOW} seconds",
        "tasks": f"It took {SLOW} seconds",
        "plain": f"It took {SLOW} seconds",
        "everything": f"Long running operation completed. Duration: {SLOW:g} seconds, Steps: 5.",
    }


def test_a_slow_call_says_how_far_it_is(client: Caller) -> None:
    since = len(client.puppet.heard)
    client.collect("plain__slow", seconds=SLOW)
    said = client.puppet.until(
        "notifications/progress", lambda params: "of 10" in (params.get("message") or ""), since=since
    )
    assert said["message"].startswith("Step ")


def test_failures_are_told_in_the_servers_own_words(client: Caller) -> None:
    failed = {name: client.puppet.call(f"{name}__fail") for name in ("fastmcp", "plain")}
    failed["tasks"] = client.puppet.call("tasks__report_failure")
    failed["everything"] = client.puppet.call("everything__echo", message=5)
    failed["files"] = client.puppet.call("files__read_text_file", path="/etc/passwd")
    assert {name: result["isError"] for name, result in failed.items()} == dict.fromkeys(failed, True)
    assert text_of(failed["fastmcp"]) == "This tool always fails"
    assert text_of(failed["tasks"]) == "This tool always fails"
    assert text_of(failed["plain"]) == "Error executing tool fail: This tool always fails"
    assert "expected string, received number" in text_of(failed["everything"])
    assert "outside allowed directories" in text_of(failed["files"])


def test_an_error_of_the_protocol_keeps_its_code(client: Caller) -> None:
    with pytest.raises(Refused, match="This tool never has a result") as raised:
        client.puppet.call("fastmcp__break_protocol")
    assert raised.value.code == -32050


@pytest.mark.parametrize("name", ["everything__nothing", "plain__nothing", "nobody__nothing"])
def test_a_tool_that_is_not_there_is_an_error(client: Caller, name: str) -> None:
    result = client.puppet.call(name)
    assert result["isError"] is True
    assert "nothing" in text_of(result)


def test_a_cancelled_call_is_cancelled_and_its_server_goes_on(client: Caller) -> None:
    names = {"fastmcp__slow": {"seconds": 600}, "plain__slow": {"seconds": 600}, LONG: {"duration": 600}}
    ended = at_once({name: lambda name=name: client.cancel(name, **names[name]) for name in names})
    assert ended == dict.fromkeys(names, "cancelled")
    assert text_of(client.puppet.call("plain__add", a=2, b=3)) == "5"
    assert text_of(client.puppet.call("everything__echo", message="still here")) == "Echo: still here"


def test_a_call_that_its_client_gives_up_leaves_the_connection_usable(client: Caller) -> None:
    given_up = client.puppet.do("give_up", name="plain__slow", arguments={"seconds": 30})
    assert given_up == {"isOver": False}
    assert text_of(client.puppet.call("plain__add", a=2, b=3)) == "5"


# Questions


def test_elicitations_of_all_servers_are_answered_each_once(client: Caller) -> None:
    asked = len(client.puppet.asked)
    names = ["everything__trigger-elicitation-request", "fastmcp__ask", "tasks__ask", "plain__ask"]
    seen = at_once({name: lambda name=name: client.collect(name) for name in names})
    assert [name for name, each in seen.items() if "Ada" not in str(each)] == [], seen
    assert [each["asked"] for each in client.puppet.asked[asked:]] == 4 * ["elicitation/create"]


def test_samplings_of_all_servers_are_answered_each_once(client: Caller) -> None:
    asked = len(client.puppet.asked)
    names = {"everything__trigger-sampling-request": {"prompt": "hats"}, "tasks__sample": {}, "plain__sample": {}}
    seen = at_once({name: lambda name=name: client.collect(name, **names[name]) for name in [*names]})
    assert [name for name, each in seen.items() if "Something" not in str(each)] == [], seen
    assert [each["asked"] for each in client.puppet.asked[asked:]] == 3 * ["sampling/createMessage"]


def test_a_task_of_the_servers_own_asks_in_the_middle(client: Caller) -> None:
    asked = len(client.puppet.asked)
    seen = client.collect("everything__simulate-research-query", topic="python", ambiguous=True)
    assert seen["kind"] == client.way
    assert text_of(seen["result"]).startswith("# Research Report: python (programming)")
    assert [each["asked"] for each in client.puppet.asked[asked:]] == ["elicitation/create"]


def test_the_clients_roots_reach_servers_that_ask_for_them(client: Caller, root: Path) -> None:
    """They ask when they are connected, which a client of 2026-07-28 cannot be asked; then the server's own stands."""
    assert f"file://{root}" in text_of(client.collect("everything__get-roots-list")["result"])
    allowed = text_of(client.puppet.call("files__list_allowed_directories"))
    assert allowed.splitlines()[1:] == [str(root.parent if client.is_modern else root)]


# What is told unasked


def test_a_change_of_a_resource_is_told_to_those_who_subscribed(client: Caller) -> None:
    since = len(client.puppet.heard)
    client.puppet.do("subscribe", uri=PREFIXED)
    assert "Started" in text_of(client.puppet.call("everything__toggle-subscriber-updates"))
    client.puppet.until("notifications/resources/updated", lambda params: params["uri"] == PREFIXED, since=since)
    assert "Stopped" in text_of(client.puppet.call("everything__toggle-subscriber-updates"))


def test_logs_are_told_to_those_who_want_them(client: Caller) -> None:
    """In 2026-07-28 every request says whether it wants them; the client with the tasks package does not."""
    since = len(client.puppet.heard)
    if client.is_modern:
        with pytest.raises((Refused, AssertionError), match="not"):
            client.puppet.do("level", level="debug")
    else:
        client.puppet.do("level", level="debug")
    assert "Started" in text_of(client.puppet.call("everything__toggle-simulated-logging"))
    assert "Stopped" in text_of(client.puppet.call("everything__toggle-simulated-logging"))
    if client.kind != "ext_tasks-2026":
        client.puppet.until("notifications/message", lambda params: "message" in str(params["data"]), since=since)
