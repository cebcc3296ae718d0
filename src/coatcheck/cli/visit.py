"""A visit to a server: a client with the person at the terminal behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from coatcheck.cli.asking.callbacks import Absence, Asking
from coatcheck.cli.destination import Destination
from coatcheck.cli.display import Display, shown
from coatcheck.cli.options import Access
from coatcheck.cli.terminal import Terminal, open_terminal
from coatcheck.cli.watching import Watch
from coatcheck.client import Client
from coatcheck.errors import CannotConnect

_CONNECT_SECONDS = 60


@dataclass(frozen=True)
class Visit:
    client: Client
    display: Display
    watch: Watch
    asking: Asking


@asynccontextmanager
async def visit(
    destination: Destination, access: Access, terminal: Terminal, display: Display, come_back: str = ""
) -> AsyncGenerator[Visit]:
    """Connect to a server; its questions go to the person at the terminal, or stay open where there is none.

    `come_back`: what to add to `coatcheck wait ID` for a task of this visit to be found.
    """
    asking, absence = Asking(terminal, display), Absence()
    answering = asking if terminal.has_person else absence
    client = Client(
        destination,
        elicitation_callback=answering.elicit,
        sampling_callback=answering.sample,
        mode=cast("Any", access.mode),
        headers=access.headers or None,
        auth=access.token,
        ledger=None if access.has_ledger else False,
        push=not access.is_polling,
    )
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await stack.enter_async_context(client)
        except TimeoutError:
            raise CannotConnect(
                f"There was no answer within {_CONNECT_SECONDS} seconds; is that an MCP server?"
            ) from None
        watch = Watch(terminal, display, absence.asked, ends_server=not _is_remote(destination), come_back=come_back)
        yield Visit(client, display, watch, asking)


@asynccontextmanager
async def quick_visit(destination: Destination, access: Access) -> AsyncGenerator[Client]:
    """Connect to ask a thing or two; nothing is shown, and nobody is asked."""
    with open_terminal(may_ask=False) as terminal:
        async with (
            shown(terminal.console, is_quiet=True) as display,
            visit(destination, access, terminal, display) as here,
        ):
            yield here.client


def _is_remote(destination: Destination) -> bool:
    return isinstance(destination, str) or "url" in destination
