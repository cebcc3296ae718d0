"""The proxy in front of one server whose names it keeps: a client can hardly tell that it is there."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.interop_servers.servers import command
from tests.proxy.foreign.callers import text_of, ticket_of
from tests.proxy.foreign.proxies import SLOW, unprefixed
from tests.proxy.foreign.puppets import Json, Puppet, playing

pytestmark = pytest.mark.slow

KIND = "typescript_v1"
OURS = {"get_task", "wait_task", "answer_task", "cancel_task", "list_tasks"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Generator[Puppet]:
    folder = tmp_path_factory.mktemp("unprefixed")
    with unprefixed(command("everything", "stdio"), folder) as target, playing(KIND, folder, target) as puppet:
        yield puppet


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Generator[Puppet]:
    """The same client, with no proxy between it and the server."""
    folder: Path = tmp_path_factory.mktemp("direct")
    with playing(KIND, folder, command("everything", "stdio")) as puppet:
        yield puppet


def _as_listed(tool: Json) -> Json:
    """Leave out what the proxy adds to it: that it may be a task, and that its result may be a ticket."""
    own = {name: value for name, value in tool.items() if name != "execution"}
    if "outputSchema" in own:
        own["outputSchema"] = own["outputSchema"].get("anyOf", [own["outputSchema"]])[0].get("properties")
    return own


def test_tools_are_listed_as_their_server_lists_them(client: Puppet, direct: Puppet) -> None:
    tools = [tool for tool in client.do("tools") if tool["name"] not in OURS]
    assert [_as_listed(tool) for tool in tools] == [_as_listed(tool) for tool in direct.do("tools")]


@pytest.mark.parametrize("kind", ["templates", "prompts"])
def test_templates_and_prompts_are_listed_as_their_server_lists_them(client: Puppet, direct: Puppet, kind: str) -> None:
    assert client.do(kind) == direct.do(kind)


def test_resources_are_listed_as_their_server_lists_them(client: Puppet, direct: Puppet) -> None:
    [ours, *resources] = client.do("resources")
    assert ours["uri"] == "coatcheck://diagrams"
    assert resources == direct.do("resources")


def test_results_are_those_of_the_server(client: Puppet, direct: Puppet) -> None:
    calls = {"echo": {"message": "hats"}, "get-tiny-image": {}, "get-annotated-message": {"messageType": "debug"}}
    for name, arguments in calls.items():
        assert client.call(name, **arguments) == direct.call(name, **arguments)


def test_a_ticket_is_taken_though_names_have_no_prefix(client: Puppet) -> None:
    ticket = ticket_of(client.call("trigger-long-running-operation", duration=SLOW, steps=2))
    assert ticket
    result = client.call("wait_task", task_id=ticket["taskId"])
    assert text_of(result) == f"Long running operation completed. Duration: {SLOW:g} seconds, Steps: 2."


def test_a_tool_that_is_not_there_is_refused_in_the_servers_own_words(client: Puppet, direct: Puppet) -> None:
    assert client.call("nothing") == direct.call("nothing")
