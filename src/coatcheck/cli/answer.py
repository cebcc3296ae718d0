"""`coatcheck answer`: what a task asks, answered in a dialogue or in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coatcheck.cli import options
from coatcheck.cli.arguments import describe, read_arguments
from coatcheck.cli.display import shown
from coatcheck.cli.exits import Exit
from coatcheck.cli.later import later
from coatcheck.cli.ledger import Place, locate
from coatcheck.cli.output import question_text, write, write_json
from coatcheck.cli.running import run
from coatcheck.cli.schemas import resolved
from coatcheck.cli.terminal import open_terminal
from coatcheck.dialects.seen import Question, Snapshot
from coatcheck.errors import InvalidArgument

if TYPE_CHECKING:
    from coatcheck.cli import visit
else:
    visit = later("coatcheck.cli.visit")

Key = Annotated[str | None, typer.Option("--question", help="Which of several questions; `coatcheck status` has them.")]
Decline = Annotated[bool, typer.Option("--decline", help="Say no.")]
Cancel = Annotated[bool, typer.Option("--cancel", help="Say nothing at all; the question is settled by that.")]


@dataclass(frozen=True)
class Reply:
    """What was said on the command line."""

    key: str | None
    pairs: list[str]
    file: str | None
    action: str
    is_json: bool

    @property
    def is_empty(self) -> bool:
        return self.action == "accept" and not self.pairs and not self.file


def answer(
    identifier: options.Identifier,
    arguments: options.Arguments = None,
    input_file: options.Input = None,
    question: Key = None,
    decline: Decline = False,
    cancel: Cancel = False,
    target: options.OtherTarget = None,
    header: options.Headers = None,
    token: options.Token = None,
    mode: options.Mode = "auto",
    as_json: options.AsJSON = False,
) -> None:
    """Answer what a task asks: in a dialogue, or with what is given here.

    Examples:

        coatcheck answer 8AvoA3kG

        coatcheck answer 8AvoA3kG approved=yes comment="Go ahead"

        coatcheck answer 8AvoA3kG --decline
    """
    if decline and cancel:
        raise InvalidArgument("Choose one of --decline and --cancel.")
    action = "decline" if decline else "cancel" if cancel else "accept"
    reply = Reply(question, arguments or [], input_file, action, as_json)
    if action != "accept" and (reply.pairs or reply.file):
        raise InvalidArgument(f"With --{action} there is nothing else to say; leave the rest out.")
    place = locate(identifier, target, mode)
    run(_answer(place, options.access(header, token, place.mode, is_polling=True), reply), is_json=as_json)


async def _answer(place: Place, access: options.Access, reply: Reply) -> int:
    with open_terminal(stdin_is_taken=reply.file == "-") as terminal:
        async with (
            shown(terminal.console, is_quiet=True) as display,
            visit.visit(place.destination, access, terminal, display) as here,
        ):
            handle = here.client.handle(place.task_id)
            asked = _chosen(await handle.status(), reply)
            if reply.is_empty and terminal.has_person:
                given = {key: await here.asking.answer(each.method, each.params) for key, each in asked.items()}
            else:
                given = _given(asked, reply)
            answers = {key: each for key, each in given.items() if each is not None}
            if answers:
                await handle.answer(answers)
    if reply.is_json:
        write_json({"id": place.task_id, "answered": list(answers)})
    elif answers:
        write("answered")
    return Exit.OK if answers else Exit.ASKED


def _chosen(snapshot: Snapshot, reply: Reply) -> Mapping[str, Question]:
    """Return the questions that are meant.

    Raises:
        InvalidArgument: There are none, or none of that name.
    """
    asked = snapshot.questions
    if not asked and snapshot.status.value == "input_required":
        raise InvalidArgument(f"It asks whoever waits for it; answer with: coatcheck wait {snapshot.id}")
    if not asked:
        raise InvalidArgument(f"Task {snapshot.id} asks nothing; it is {snapshot.status.value}.")
    if reply.key is None:
        return asked
    if reply.key not in asked:
        raise InvalidArgument(f"Task {snapshot.id} does not ask {reply.key!r}; it asks {', '.join(asked)}.")
    return {reply.key: asked[reply.key]}


def _given(asked: Mapping[str, Question], reply: Reply) -> dict[str, dict[str, Any]]:
    """Return the answer that was given on the command line."""
    if len(asked) > 1:
        raise InvalidArgument(f"It asks several questions; choose one with --question: {', '.join(asked)}.")
    ((key, question),) = asked.items()
    if reply.action != "accept":
        return {key: {"action": reply.action}}
    if question.method != "elicitation/create":
        return {key: read_arguments([], reply.file, {"additionalProperties": True}, question.method)}
    if question.params.get("mode") == "url":
        return {key: {"action": "accept"}}
    schema = resolved(question.params.get("requestedSchema"), {})
    if reply.is_empty and schema.get("properties"):
        raise InvalidArgument(f"It asks {question_text(question)!r}; answer with {describe(schema)}, or --decline.")
    content = read_arguments(reply.pairs, reply.file, schema, "The question")
    return {key: {"action": "accept", "content": content}}
