"""What a hostile client of 2025-11-25 says: requests bent as in `messages.py`, and answers to what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, cast

from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY

from coatcheck.dialects.v2026 import VERSION as NEWER
from coatcheck.dialects.words import RELATED_TASK
from tests.fuzz.messages import ANSWER, LEGACY, PATH, Fuzzer, Message, Targets, headers_for
from tests.fuzz.values import Raw, hostile, hostile_text, write

Json = dict[str, Any]

TOOLS = ("take", "take", "ask", "ask", "must", "plain", "named", "sample", "roots", "count", "fails", "linger", "none")
FALLBACK_TOOLS = ("get_task", "wait_task", "answer_task", "cancel_task", "list_tasks")
ASKING = (b'"ask"', b'"named"', b'"sample"', b'"roots"', b'"linger"')
MAY_WAIT = (b"tasks/result", b"wait_task", *ASKING)
"""Is in every message whose answer may be long in coming."""
CLIENT_TASKS: Json = {"requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}, "cancel": {}}
ASKABLE: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
HELLOS: tuple[tuple[str, Json], ...] = (
    (LEGACY, ASKABLE),
    (LEGACY, {**ASKABLE, "tasks": CLIENT_TASKS}),
    (LEGACY, {}),
    (LEGACY, {"elicitation": {}, "experimental": {"x": {"y": "z" * 5_000}}, "tasks": {"requests": {}}}),
    ("2025-06-18", ASKABLE),
)
"""Versions and capabilities, as clients begin their sessions with."""
_LIFETIMES = (1, 0, -1, 1000, None, 2**31, 2**63, 10**40, 10**400, True, 0.5, 1.0, "60000", Raw("NaN"), Raw("1e999"))
_PAUSES: Sequence[Any] = (1, 0, -1, None, 0.5, 10**400, Raw("NaN"), Raw("1e999"), "x", True, [])
_LEVELS = ("debug", "error", "x")


def request(method: str, number: Any, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def notification(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def hello(number: Any, version: Any, capabilities: Any) -> Json:
    who = {"name": "fuzz", "version": "1"}
    return request("initialize", number, protocolVersion=version, capabilities=capabilities, clientInfo=who)


def may_wait(message: Message) -> bool:
    body = message.body.replace(b"\0", b"")
    return any(word in body for word in MAY_WAIT)


class OlderFuzzer(Fuzzer):
    """A stream of messages in one session, which has a name if it is over HTTP."""

    def __init__(
        self,
        seed: int,
        targets: Targets,
        token: str | None = None,
        *,
        version: str = LEGACY,
        session: str | None = None,
    ) -> None:
        super().__init__(seed, targets, (token,))
        self.token, self.version = token, version
        self._session = () if session is None else ((b"mcp-session-id", session.encode()),)
        self.cursors: list[str] = []
        self._open_ids: list[Any] = [0]

    def message(self) -> Message:
        """As ever, but more often good enough to get somewhere."""
        return self._fitting(self.valid()) if self.chance.random() < 0.4 else super().message()

    def post(self, body: Any) -> Message:
        """Return a message as the transport wants it, whatever its body."""
        text = body if isinstance(body, bytes) else write(body).encode("utf-8", "surrogateescape")
        return Message("POST", PATH, (*headers_for(body, self.token, self.version), *self._session), (text,))

    def _fitting(self, body: Any) -> Message:
        return self.post(body)

    def _legacy(self) -> Message:
        """Return a request that is not for this session, or not about messages at all."""
        made = self.post(self.valid())
        chance = self.chance
        if not self._session or chance.random() < 0.3:
            return replace(made, verb=chance.choice(("PUT", "HEAD", "PATCH")))
        given = self._session[0][1]
        session = chance.choice((given[:-1], given.upper(), b"", b"0" * 32, given + b",", b"\xff", given[::-1]))
        return replace(made, headers=(*made.headers[:-1], (b"mcp-session-id", session)))

    def _elsewhere(self, fitting: Message) -> Message:
        """As ever, but for what would begin a stream or end the session, which are told apart from messages."""
        made = super()._elsewhere(fitting)
        return replace(made, verb="POST") if made.verb in ("GET", "DELETE") else made

    def _id(self) -> Any:
        """Return an id of its own: two requests of one id would get each other's answers."""
        number = super()._id()
        made = f"{number}-{self.chance.randrange(16**6):06x}"
        if self.chance.random() < 0.3:
            made = 10**6 * self.chance.randrange(1, 10**6) + self._number
        self._open_ids[:] = [*self._open_ids, made][-20:]
        return made

    def bent(self, body: Any) -> Any:
        number = body.get("id")
        bent = super().bent(body)
        if isinstance(bent, dict) and "id" in bent and cast("Json", bent)["id"] != number:
            odd: Sequence[Any] = (None, True, 1.5, [], {}, f"odd\0{number}", f"{number}" * 200, Raw("1e999"))
            cast("Json", bent)["id"] = self.chance.choice(odd)
        return cast("Any", bent)

    # Requests

    def valid(self) -> Any:
        """Return a request that would be answered, or a notification, with `_meta` of every kind."""
        chance = self.chance
        body = chance.choices(self._kinds(), (24, 16, 20, 20, 9, 6, 7, 4, 4))[0]()
        if chance.random() < 0.4 and "params" in body:
            body["params"]["_meta"] = self._meta()
        return body

    def _kinds(self) -> tuple[Callable[[], Json], ...]:
        return (
            self._call_as_task,
            self._call_held,
            self._fallback_call,
            lambda: request("tasks/result", self._id(), taskId=self._task_id()),
            lambda: request("tasks/get", self._id(), taskId=self._task_id()),
            lambda: request("tasks/cancel", self._id(), taskId=self._task_id()),
            self._listing,
            self._aside,
            self._unasked,
        )

    def _call_as_task(self) -> Json:
        body = self._call_held()
        lifetime = self.chance.choice(_LIFETIMES)
        body["params"]["task"] = self.chance.choice(({}, {}, {"ttl": 60_000}, {"ttl": lifetime}, hostile(self.chance)))
        return body

    def _call_held(self) -> Json:
        value = "x" if self.chance.random() < 0.5 else hostile(self.chance)
        return request("tools/call", self._id(), name=self.chance.choice(TOOLS), arguments={"value": value})

    def _fallback_call(self) -> Json:
        chance = self.chance
        name = chance.choice(FALLBACK_TOOLS)
        arguments: Json = {"task_id": self._task_id()}
        match name:
            case "wait_task":
                arguments["seconds"] = chance.choice((0, 0.01, 1, 1e308, -1, None, "5", Raw("NaN"), Raw("1e999")))
            case "answer_task":
                content = chance.choice((ANSWER["content"], ANSWER["content"], "7", None, hostile(chance)))
                arguments |= {"content": content, "action": chance.choice(("accept", "accept", "decline", "x"))}
                arguments["question"] = chance.choice([*self.targets.keys, None, hostile_text(chance)])
            case "list_tasks":
                arguments = {} if chance.random() < 0.4 else {"cursor": self._cursor()}
            case _:
                pass
        return request("tools/call", self._id(), name=name, arguments=arguments)

    def _listing(self) -> Json:
        params = {} if self.chance.random() < 0.4 else {"cursor": self._cursor()}
        return request("tasks/list", self._id(), **params)

    def _cursor(self) -> Any:
        chance = self.chance
        if self.cursors and chance.random() < 0.7:
            known = chance.choice(self.cursors)
            return known if chance.random() < 0.4 else self._misspelt(known)
        return chance.choice(("", "=", "gA", "kw", "AAAA" * 500, "é", hostile_text(chance), hostile(chance)))

    def _aside(self) -> Json:
        """Return what is asked besides tasks, or belongs to another generation of them."""
        chance, number = self.chance, self._id()
        return chance.choice(
            (
                request("tools/list", number),
                request("ping", number),
                hello(number, self.version, chance.choice(HELLOS)[1]),
                request("logging/setLevel", number, level=chance.choice(_LEVELS)),
                request("tasks/update", number, taskId=self._task_id(), inputResponses={"a": ANSWER}),
                request("subscriptions/listen", number, notifications={"taskIds": [self._task_id()]}),
                request("server/discover", number),
                request("resources/read", number, uri="file:///x"),
                request("elicitation/create", number, message="x", requestedSchema={}),
                request(hostile_text(chance), number, taskId=self._task_id()),
            )
        )

    def _unasked(self) -> Json:
        """Return what is no request."""
        chance = self.chance
        return chance.choice(
            (
                notification("notifications/initialized"),
                notification("notifications/cancelled", requestId=chance.choice(self._open_ids), reason="x"),
                notification("notifications/progress", progressToken=chance.randrange(20), progress=1),
                notification("notifications/tasks/status", taskId=self._task_id(), status="cancelled"),
                notification("notifications/roots/list_changed"),
                notification("tools/call", name="take", arguments={}, task={}),
                notification("tasks/cancel", taskId=self._task_id()),
                {"jsonrpc": "2.0", "id": 10**9 + chance.randrange(10), "result": ANSWER},
                {"jsonrpc": "2.0", "id": f"{10**9}", "error": {"code": -32000, "message": "x"}},
            )
        )

    def _meta(self) -> Any:
        chance = self.chance
        token = chance.choice((self._number, f"token {self._number}", hostile(chance)))
        return chance.choice(
            (
                {"progressToken": token},
                {"progressToken": token},
                {RELATED_TASK: {"taskId": self._task_id()}},
                {RELATED_TASK: hostile(chance), "progressToken": 1},
                {CLIENT_CAPABILITIES_META_KEY: hostile(chance)},
                {PROTOCOL_VERSION_META_KEY: NEWER, CLIENT_CAPABILITIES_META_KEY: {"elicitation": {}}},
                {"traceparent": hostile_text(chance), hostile_text(chance): hostile(chance)},
                hostile(chance),
            )
        )


# Answers


def answer_to(question: Json, chance: Random) -> Json | None:
    """Return an answer to a request of the server, as good or bad as it comes; None: it stays without one."""
    kind, number = chance.random(), question["id"]
    if kind < 0.08:
        return None
    if kind < 0.22:
        return {"jsonrpc": "2.0", "id": number, "error": _error(chance)}
    result = _result(question, chance) if kind < 0.85 else hostile(chance)
    if kind > 0.6 and isinstance(result, dict):
        result = {**cast("Json", result), **chance.choice(_additions(chance))}
    return {"jsonrpc": "2.0", "id": f"{number}" if chance.random() < 0.1 else number, "result": result}


def _error(chance: Random) -> Any:
    """Return an error that none of ours can be mistaken for: what is answered with one ends with it."""
    error = {
        "code": chance.choice((-32000, -32602, -1, 1, 2**63, 10**40, -(10**300), 7.0)),
        "message": chance.choice(("declined", "", hostile_text(chance), "x" * 20_000)),
        "data": chance.choice((None, {"_meta": 1}, {"_meta": {RELATED_TASK: "x"}}, hostile(chance))),
    }
    return error if chance.random() < 0.8 else {key: error[key] for key in chance.sample(list(error), 2)}


def _result(question: Json, chance: Random) -> Any:
    status = chance.choice(("completed", "completed", "failed", "cancelled", "working", hostile(chance)))
    pause = chance.choice(_PAUSES)
    own = {"taskId": f"own {chance.randrange(3)}", "status": status, "pollInterval": pause}
    match question["method"]:
        case "tasks/get":
            return own
        case "tasks/cancel":
            return {}
        case "tasks/result":
            return chance.choice((ANSWER, ANSWER, hostile(chance)))
        case _ if "task" in question.get("params", {}) and chance.random() < 0.7:
            return {"task": chance.choice((own, own, own, hostile(chance), {"taskId": hostile(chance)}))}
        case "elicitation/create":
            contents = (ANSWER["content"], {"number": 10**400}, {"number": 7.0}, hostile(chance))
            actions = ("accept", "accept", "accept", "decline", "cancel", hostile(chance))
            return {"action": chance.choice(actions), "content": chance.choice(contents)}
        case "sampling/createMessage":
            text = {"type": "text", "text": hostile_text(chance)}
            return {"role": "assistant", "model": "m", "content": text}
        case _:
            roots = [{"uri": "file:///x"}]
            return {"roots": chance.choice((roots, [], hostile(chance)))}


def _additions(chance: Random) -> tuple[Json, ...]:
    return (
        {"_meta": hostile(chance)},
        {"_meta": {"progressToken": hostile(chance)}},
        {"coatcheck:error": {"message": "x", "code": 1}},
        {"resultType": hostile(chance)},
        {hostile_text(chance): hostile(chance)},
        {"task": {"taskId": "own"}},
    )
