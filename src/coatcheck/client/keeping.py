"""What is written down of one call, if there is a ledger."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from coatcheck.client.ledger import Entry, Ledger
from coatcheck.client.wire import Json
from coatcheck.dialects.seen import Snapshot
from coatcheck.errors import StoreError

logger = logging.getLogger("coatcheck")


class Keeping:
    """Only what has to be durable before something else happens may fail; the rest is a convenience."""

    def __init__(self, ledger: Ledger | None, key: str) -> None:
        self._ledger, self.key = ledger, key
        self._status: str | None = None

    def begin(self, entry: Entry) -> None:
        if self._ledger:
            self._ledger.begin(entry)

    def became(self, snapshot: Snapshot, protocol: str) -> None:
        if self._ledger:
            self._ledger.became(self.key, snapshot.id, protocol)

    def answered(self, question: str, answer: Json) -> None:
        if self._ledger:
            self._ledger.answered(self.key, question, answer)

    def answer(self, question: str) -> Json | None:
        return self._ledger.answer(self.key, question) if self._ledger else None

    def arrived(self, question: str) -> None:
        with _softly():
            if self._ledger:
                self._ledger.arrived(self.key, question)

    def saw(self, snapshot: Snapshot) -> None:
        with _softly():
            if self._ledger and snapshot.status.value != self._status:
                self._status = snapshot.status.value
                self._ledger.saw(self.key, self._status)

    def delivered(self) -> None:
        """Forget the call: whoever made it has the result."""
        with _softly():
            if self._ledger:
                self._ledger.forget(self.key)

    def released(self) -> None:
        with _softly():
            if self._ledger:
                self._ledger.release(self.key)


@contextmanager
def _softly() -> Generator[None]:
    try:
        yield
    except StoreError as error:
        logger.warning("%s", error)
