"""`coatcheck tasks`: what was handed in from here and not collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from coatcheck.cli import options
from coatcheck.cli.durations import ago
from coatcheck.cli.exits import Exit
from coatcheck.cli.later import later
from coatcheck.cli.ledger import entries, short_names, where
from coatcheck.cli.output import stdout, write_json
from coatcheck.cli.plain import one_line
from coatcheck.cli.running import run

if TYPE_CHECKING:
    from coatcheck.cli import looking, narrowing
    from coatcheck.cli.looking import Look
    from coatcheck.client.ledger import Entry
else:
    looking, narrowing = later("coatcheck.cli.looking"), later("coatcheck.cli.narrowing")

Offline = Annotated[bool, typer.Option("--offline", help="Do not ask the servers; say what was seen last.")]
_STYLES = {"working": "cyan", "input_required": "yellow", "completed": "green", "failed": "red", "lost": "red"}


def tasks(
    offline: Offline = False,
    target: options.OneServer = None,
    header: options.Headers = None,
    token: options.Token = None,
    as_json: options.AsJSON = False,
) -> None:
    """List the tasks that were handed in from here and not collected, and how they are doing.

    Examples:

        coatcheck tasks

        coatcheck tasks --offline --json | jq -r .id

        coatcheck tasks --target https://example.org/mcp --token "$TOKEN"
    """
    access = options.access(header, token, is_polling=True)
    run(_tasks(access, offline, target, is_json=as_json), is_json=as_json)


async def _tasks(access: options.Access, is_offline: bool, target: str | None, *, is_json: bool) -> int:
    found, looks = entries(), dict[str, "Look"]()
    if found and (target is not None or not is_offline):
        asked = narrowing.narrowed(found, target, access)
        found = asked.entries
        looks = {} if is_offline or not found else await looking.look_at(asked, access)
    if is_json:
        for entry in found:
            write_json(_json(entry, looks.get(entry.key)))
    elif found:
        stdout().print(_table(found, looks))
    else:
        stdout().print("There are none.")
    return Exit.OK


def _table(found: Sequence[Entry], looks: Mapping[str, Look]) -> Table:
    table = Table("id", "tool", "status", "message", "age", "where", box=None, pad_edge=False, header_style="bold")
    ids = [entry.task_id or entry.key for entry in found]
    names = short_names(ids) if stdout().is_terminal else {each: each for each in ids}
    for entry in found:
        look = looks.get(entry.key)
        status = look.status if look else _last_seen(entry)
        message = one_line(look.message) if look else ""
        age = ago((datetime.now(UTC) - entry.started_at).total_seconds())
        styled = Text(status.replace("_", " "), style=_STYLES.get(status, ""))
        cells = (names[entry.task_id or entry.key], one_line(entry.tool), message, age, one_line(where(entry.target)))
        table.add_row(*map(Text, cells[:2]), styled, *map(Text, cells[2:]))
    return table


def _json(entry: Entry, look: Look | None) -> dict[str, Any]:
    return {
        "id": entry.task_id,
        "tool": entry.tool,
        "status": look.status if look else _last_seen(entry),
        "message": look.message if look else "",
        "started_at": entry.started_at.isoformat(),
        "target": entry.target,
        "arguments": entry.arguments,
        "is_waited_for": entry.holder_alive,
    }


def _last_seen(entry: Entry) -> str:
    """Return what is known without asking."""
    return entry.status or ("working" if entry.task_id else "unknown")
