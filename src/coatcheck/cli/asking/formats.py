"""Formats of text that a form may ask for: what they look like, and reading them leniently."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Format:
    hint: str
    read: Callable[[str], str]
    """Returns the text in its proper form, or raises ValueError."""


def _email(text: str) -> str:
    if not re.fullmatch(r"[^@\s]+@[^@\s]+", text):
        raise ValueError(text)
    return text


def _uri(text: str) -> str:
    parts = urlsplit(text)
    if not parts.scheme or not (parts.netloc or parts.path) or re.search(r"\s", text):
        raise ValueError(text)
    return text


def _date(text: str) -> str:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        raise ValueError(text)
    return date.fromisoformat(text).isoformat()


def _date_time(text: str) -> str:
    if not re.match(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}", text):
        raise ValueError(text)
    moment = datetime.fromisoformat(text)
    # Who names no time zone means their own.
    return (moment if moment.tzinfo else moment.astimezone()).isoformat()


FORMATS = {
    "email": Format("an e-mail address", _email),
    "uri": Format("a URL, as https://example.org", _uri),
    "date": Format("a date, as 2026-07-28", _date),
    "date-time": Format("a date and time, as 2026-07-28 09:30", _date_time),
}
