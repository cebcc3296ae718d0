"""A link that a person is asked to visit. Nothing is opened before they say so."""

from __future__ import annotations

import asyncio
import webbrowser
from typing import Any
from urllib.parse import urlsplit

from coatcheck.cli.asking.person import Declined, Dismissed, Person, type_line

_SAFE = ("http", "https")


async def answer_link(person: Person, message: str, url: str) -> dict[str, Any]:
    """Show where to go and wait until the person has been there; return the answer."""
    person.show(message, "bold")
    person.show(f"  {url}", "underline")
    parts = urlsplit(url)
    is_safe = parts.scheme in _SAFE and bool(parts.hostname)
    if is_safe:
        person.show(f"It leads to {parts.hostname}. /decline says no, /cancel says nothing at all.", "dim")
    else:
        person.show("It is no web address, so it cannot be opened from here. /decline says no.", "yellow")
    done = "Enter when you are done: "
    prompt = f"Type o to open it in the browser, or {done}" if is_safe else done
    try:
        while True:
            word = (await type_line(person, prompt)).strip().lower()
            if word in ("", "d", "done"):
                return {"action": "accept"}
            if word in ("o", "open") and is_safe:
                await _open(person, url)
                prompt = done
            else:
                person.show("  Press Enter when you are done, or type /decline.", "yellow")
    except Declined:
        return {"action": "decline"}
    except Dismissed:
        return {"action": "cancel"}


async def _open(person: Person, url: str) -> None:
    try:
        is_open = await asyncio.to_thread(webbrowser.open, url)
    except webbrowser.Error:
        is_open = False
    person.show("  Opened." if is_open else "  There is no browser here; open it yourself.", "dim")
