"""Logs on stderr: lines for people, or one JSON object a line for machines. Stdout belongs to the protocol."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum

from coatcheck.errors import InvalidArgument
from coatcheck.payload import encode

_TALKATIVE = ("uvicorn.access", "uvicorn.error", "mcp.server.streamable_http_manager")
_INDISCREET = ("sse_starlette", "httpcore2", "httpx2")
"""They log what passes, at level debug: results of tools, whole URLs, headers with sessions in them."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class JSONLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return bytes(encode(line)).decode()


def configure_logs(form: LogFormat, level: str) -> None:
    """Log to stderr, and only there, whatever the SDK set up before.

    Raises:
        InvalidArgument: There is no such level.
    """
    if level.upper() not in logging.getLevelNamesMapping():
        raise InvalidArgument(f"There is no log level {level!r}; use debug, info, warning or error.")
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    handler.setFormatter(JSONLines() if form is LogFormat.JSON else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in (*_TALKATIVE, *_INDISCREET):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("coatcheck.audit").setLevel(logging.INFO)  # who wants it, wants it whatever else is logged
