"""Tokens on the command line: asked for by `serve` and `proxy`, shown by the commands that call."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coatcheck import Client
from tests.access.issuer import AUDIENCE, Issuer, an_issuer
from tests.cli.caller import Caller, serving
from tests.cli.serving import Served
from tests.cli.test_proxy import Proxies, child, write

ISSUER, HTTP = "https://issuer.example", ("--http", "127.0.0.1:0")
NAMED = ("--issuer", ISSUER, "--audience", AUDIENCE)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "mcp.json"


# What is refused


@pytest.mark.parametrize("command", ["serve", "proxy"])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--issuer", ISSUER], f"Tokens of {ISSUER} may be for any server; say what this one is called in their `aud`"),
        (["--audience", AUDIENCE], "Of tokens there is an audience, a key set or a scope, but no issuer; name it with"),
        (["--jwks", f"{ISSUER}/keys"], "Of tokens there is an audience, a key set or a scope, but no issuer;"),
        (["--scope", "books"], "Of tokens there is an audience, a key set or a scope, but no issuer;"),
        (
            ["--issuer", "http://issuer.example", "--audience", "x"],
            "issuer must be the https URL of an issuer of tokens",
        ),
        ([*NAMED, "--jwks", "keys.json"], "jwks must be the https URL"),
    ],
)
def test_half_of_what_makes_a_token_good_is_refused(
    command: str, options: list[str], sentence: str, coatcheck: Caller, config: Path
) -> None:
    write(config, a={"command": "x"})
    where = ["tests.cli.app:server"] if command == "serve" else ["--config", str(config)]
    done = coatcheck(command, *where, *HTTP, *options)
    assert (done.code, done.out) == (2, "")
    assert done.sentence.startswith(sentence)


@pytest.mark.parametrize("command", ["serve", "proxy"])
def test_over_stdio_nobody_is_asked_for_a_token(command: str, coatcheck: Caller, config: Path) -> None:
    write(config, a={"command": "x"})
    where = ["tests.cli.app:server", "--stdio"] if command == "serve" else ["--config", str(config)]
    done = coatcheck(command, *where, *NAMED)
    assert (done.code, done.sentence) == (
        2,
        "Callers show their tokens over HTTP; serve with --http, or leave --issuer out.",
    )


@pytest.mark.parametrize("where", ["entry", "file"])
def test_a_file_with_rules_is_not_served_to_callers_without_names(where: str, coatcheck: Caller, config: Path) -> None:
    terms = {"coatcheck": {"roles": ["ops"]}}
    content: dict[str, Any] = {"mcpServers": {"a": {"command": "x", **(terms if where == "entry" else {})}}}
    config.write_text(json.dumps({**content, **(terms if where == "file" else {})}))
    for options in ((), HTTP):
        done = coatcheck("proxy", "--config", str(config), *options)
        assert done.code == 2
        assert done.sentence == (
            f"{config} keeps something for callers with roles or scopes, which they show by a token; "
            "serve it with --http, --issuer and --audience, or take that out."
        )


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ('MCPServer("plain")', "is no TaskServer, so it takes its authentication in its code only"),
        (
            'TaskServer("own", tokens=JWTVerifier("https://own.example", audience="x"))',
            "This server has authentication of its own in its code; leave --issuer and COATCHECK_ISSUER out.",
        ),
    ],
)
def test_serve_does_not_take_the_place_of_what_the_code_says(
    code: str, sentence: str, coatcheck: Caller, tmp_path: Path
) -> None:
    program = tmp_path / f"served_{len(code)}.py"
    program.write_text(
        "from mcp.server.mcpserver import MCPServer\n"
        f"from coatcheck.server import JWTVerifier, TaskServer\nserver = {code}\n"
    )
    done = coatcheck("serve", str(program), *HTTP, *NAMED)
    assert done.code == 2
    assert sentence in done.sentence


# Who is let in


@pytest.fixture
def issuer() -> Generator[Issuer]:
    with an_issuer() as issuer:
        issuer.describe()
        yield issuer


@pytest.fixture
async def start(tmp_path: Path) -> AsyncGenerator[Proxies]:
    proxies = Proxies(tmp_path)
    yield proxies
    await proxies.clean_up()


async def greeted(url: str, token: str | None) -> int:
    """Return the status of what a caller gets to its hello."""
    info = {"name": "a", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    headers = {
        "accept": "application/json, text/event-stream",
        **({"authorization": f"Bearer {token}"} if token else {}),
    }
    async with httpx2.AsyncClient() as http:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        return (await http.post(url, json=hello, headers=headers)).status_code


async def _asks(served: Served, issuer: Issuer) -> None:
    assert await served.says("  tokens ") == f"of {issuer.name}"
    tokens = {None: 401, "nonsense": 401, issuer.token(aud="else", scope="books"): 401, issuer.token(): 403}
    for token, status in {**tokens, issuer.token(scope="books"): 200}.items():
        assert await greeted(served.url, token) == status


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("way", ["options", "environment"])
async def test_a_proxy_lets_in_who_shows_a_token_of_its_issuer(
    way: str, start: Proxies, issuer: Issuer, config: Path, tmp_path: Path
) -> None:
    write(config, child={**child(tmp_path), "coatcheck": {"tools": {"pid": {"roles": ["ops"]}}}})
    if way == "options":
        options = ("--issuer", issuer.name, "--audience", AUDIENCE, "--scope", "books", "--roles-claim", "realm.roles")
        served = await start(config, *options, "--log-level", "debug")
    else:
        said = {
            "ISSUER": issuer.name,
            "AUDIENCE": f"another {AUDIENCE}",
            "SCOPES": "books",
            "ROLES_CLAIM": "realm.roles",
        }
        served = await start(
            config, "--log-level", "debug", **{f"COATCHECK_{name}": value for name, value in said.items()}
        )
    await _asks(served, issuer)
    may = issuer.token(scope="books", realm={"roles": ["ops"]})
    others = {"child__environment", "child__stuck", "child__die"}
    assert await _tools(served.url, may) == {"child__pid", *others}
    assert await _tools(served.url, issuer.token(scope="books")) == others
    assert not any(may.rpartition(".")[2] in line for line in served.said)


async def _tools(url: str, token: str) -> set[str]:
    async with Client(url, auth=token, ledger=False) as client:
        return {tool.name for tool in await client.tools() if tool.name.startswith("child__")}


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_server_without_authentication_is_given_one_on_the_command_line(issuer: Issuer, tmp_path: Path) -> None:
    environment = {"COATCHECK_ISSUER": issuer.name, "COATCHECK_AUDIENCE": AUDIENCE, "COATCHECK_SCOPES": "books"}
    with serving(tmp_path, **environment) as url:
        for token, status in {None: 401, issuer.token(): 403, issuer.token(scope="books"): 200}.items():
            assert await greeted(url, token) == status


# Showing a token


@pytest.fixture(scope="module")
def trusted() -> Generator[Issuer]:
    with an_issuer() as issuer:
        issuer.describe()
        yield issuer


@pytest.fixture(scope="module")
def url(trusted: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A server that asks for tokens."""
    said = {"COATCHECK_ISSUER": trusted.name, "COATCHECK_AUDIENCE": AUDIENCE}
    with serving(tmp_path_factory.mktemp("guarded"), **said) as where:
        yield where


WAYS = ["option", "header", "environment", "entry"]


@pytest.fixture
def ann(trusted: Issuer) -> str:
    return trusted.token()


@pytest.fixture
def bob(trusted: Issuer) -> str:
    return trusted.token(sub="bob")


def kept(coatcheck: Caller) -> bytes:
    """Return all that commands have left on the disk."""
    return b"".join(path.read_bytes() for path in (coatcheck.folder / "state").rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_token_may_be_given_in_many_ways_and_is_kept_in_none(
    way: str, url: str, ann: str, coatcheck: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way in ("environment", "entry"):
        monkeypatch.setenv("COATCHECK_TOKEN" if way == "environment" else "BOOKS_TOKEN", ann)
    entry = {"url": url, "headers": {"Authorization": "Bearer ${BOOKS_TOKEN}"}}
    (coatcheck.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"books": entry}}))
    shown = {"option": ["--token", ann], "header": ["-H", f"Authorization: Bearer {ann}"]}.get(way, [])
    server = "books" if way == "entry" else url
    assert coatcheck("call", server, "add", "a=1", "b=2", *shown).out == "3\n"
    done = coatcheck("call", server, "steps", "count=1", "--detach", *shown)
    task_id = done.out.strip()
    assert (done.code, done.err) == (0, "")
    assert task_id.encode() in kept(coatcheck)
    assert ann.encode() not in kept(coatcheck)
    there = ["--target", server] if way == "entry" else []
    assert [task["status"] for task in coatcheck("tasks", "--json", *there, *shown).lines] in (
        ["completed"],
        ["working"],
    )
    assert coatcheck("status", task_id, *there, *shown).code == 0
    resumed = coatcheck("resume", "--json", *there, *shown)
    assert resumed.json["result"]["content"][0]["text"] == "1 steps"
    assert ann not in done.out + done.err + resumed.out + resumed.err


COMMANDS = (["status"], ["wait"], ["answer", "approved=yes"], ["cancel"])


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_tasks_of_others_and_ids_of_no_task_are_told_in_the_same_words(
    command: list[str], url: str, ann: str, bob: str, coatcheck: Caller
) -> None:
    task_id = coatcheck("call", url, "approve", "--detach", "--token", ann).out.strip()
    name, *more = command
    said: dict[str, str] = {}
    for what, wanted, token in (("foreign", task_id, bob), ("unknown", "no-such-task", bob)):
        done = coatcheck(name, wanted, *more, "--target", url, "--token", token)
        assert (done.code, done.out) == (5, "")
        said[what] = done.sentence.replace(wanted, "ID")
    assert said["foreign"] == said["unknown"]
    assert coatcheck("cancel", task_id, "--token", ann, "--target", url).out == "cancelled\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", [["call", "add", "a=1"], *COMMANDS, ["tools"]], ids=lambda command: command[0])
@pytest.mark.parametrize("shown", ["none", "expired", "nonsense"])
def test_who_is_not_let_in_is_told_so_in_a_sentence_without_the_token(
    command: list[str], shown: str, url: str, trusted: Issuer, coatcheck: Caller
) -> None:
    token = {"none": None, "expired": trusted.token(exp=1), "nonsense": "a-secret-token"}[shown]
    name, *more = command
    place = [url] if name in ("call", "tools") else ["an-id-of-a-task", "--target", url]
    ordered = [name, *place, *more] if name in ("call", "tools") else [name, place[0], *more, *place[1:]]
    done = coatcheck(*ordered, *(["--token", token] if token else []))
    assert (done.code, done.out) == (3, "")
    assert "(HTTP 401)" in done.sentence
    assert not token or token not in done.err


@pytest.mark.slow
@pytest.mark.parametrize("command", ["tasks", "resume"])
def test_a_token_for_one_server_is_not_shown_to_another(
    command: str, url: str, ann: str, coatcheck: Caller, tmp_path: Path
) -> None:
    with serving(tmp_path) as other:
        assert coatcheck("call", other, "steps", "count=1", "--detach").code == 0
        task_id = coatcheck("call", url, "steps", "count=1", "--detach", "--token", ann).out.strip()
        done = coatcheck(command, "--token", ann)
        assert (done.code, done.out) == (2, "")
        assert done.sentence == (
            "There are tasks at 2 addresses, and a token or a header is for one of them; name its server with --target."
        )
        found = coatcheck(command, "--json", "--token", ann, "--target", url)
        assert [line["id"] for line in found.lines] == [task_id]
        assert coatcheck(command, "--json", "--target", other).code == 0


def test_a_header_that_is_none_is_not_shown(coatcheck: Caller) -> None:
    done = coatcheck("call", "http://127.0.0.1:9/mcp", "add", "--header", "Authorization Bearer hunter2")
    assert (done.code, done.sentence) == (2, "One of the headers is none; write --header 'Name: value'.")
