"""The terminal and the person at it: shown things on stderr, asked for lines, and interrupting as they please."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO

from rich.console import Console
from rich.text import Text

from coatcheck.cli.plain import plain

_LONGEST_LINE = 65_536


class Terminal:
    """Lines go to whoever asked last: a menu may come between a question and its answer."""

    def __init__(self, console: Console, source: IO[str] | None) -> None:
        """`source`: where lines come from; None: there is nobody to type any."""
        self.console = console
        self._source = source
        self._readers: list[_Reader] = []
        self._received = b""
        self._interrupted = asyncio.Event()
        self.is_leaving = False
        self.turn = asyncio.Lock()
        """Held by whoever has a dialogue with the person."""

    @property
    def has_person(self) -> bool:
        return self._source is not None

    # Asking

    def show(self, text: str, style: str = "") -> None:
        self.console.print(Text(plain(text), style=style), highlight=False)

    async def type(self, prompt: str) -> str:
        """Return the line that is typed.

        Raises:
            EOFError: There will be none.
        """
        if self._source is None:
            raise EOFError
        reader = _Reader(prompt, asyncio.get_running_loop().create_future())
        self._readers.append(reader)
        self._prompt(reader)
        self._listen()
        try:
            return await reader.line
        finally:
            was_last = self._readers[-1] is reader
            self._readers.remove(reader)
            if not reader.has_line:
                self.console.print()  # nobody pressed Enter
            if not self._readers:
                asyncio.get_running_loop().remove_reader(self._source.fileno())
            elif was_last:
                self._prompt(self._readers[-1])

    def withdraw(self) -> None:
        """Say that the question under way needs no answer any more, unless it is the person who leaves."""
        if not self.is_leaving:
            self.show("(Nobody asks for that any more.)", "dim")

    def forget_typed(self) -> None:
        """Throw away what was typed before it was asked for."""
        self._received = b""
        if self._source:
            with suppress(termios.error):
                termios.tcflush(self._source.fileno(), termios.TCIFLUSH)

    # Being interrupted

    @contextmanager
    def hearing_interrupts(self) -> Generator[None]:
        """In here Ctrl-C is heard by `interrupted`, and ends nothing by itself."""
        loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
        loop.add_signal_handler(signal.SIGINT, self._interrupted.set)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)

    async def interrupted(self) -> None:
        """Wait for Ctrl-C."""
        await self._interrupted.wait()
        self._interrupted.clear()

    def _prompt(self, reader: _Reader) -> None:
        self.console.print(Text(plain(reader.prompt), style="bold cyan"), end="", highlight=False, soft_wrap=True)

    def _listen(self) -> None:
        assert self._source
        asyncio.get_running_loop().add_reader(self._source.fileno(), self._receive)
        self._deliver()

    def _receive(self) -> None:
        assert self._source
        received = b""
        with suppress(OSError):  # the terminal may be gone
            received = os.read(self._source.fileno(), _LONGEST_LINE)
        if received:
            self._received += received
            self._deliver()
        else:
            self._readers[-1].end()

    def _deliver(self) -> None:
        line, newline, rest = self._received.partition(b"\n")
        if newline and self._readers[-1].take(line.decode(errors="replace")):
            self._received = rest


class _Reader:
    """Someone who waits for a line."""

    def __init__(self, prompt: str, line: asyncio.Future[str]) -> None:
        self.prompt, self.line = prompt, line

    def take(self, line: str) -> bool:
        if self.line.done():
            return False
        self.line.set_result(line)
        return True

    @property
    def has_line(self) -> bool:
        return self.line.done() and not self.line.cancelled() and not self.line.exception()

    def end(self) -> None:
        if not self.line.done():
            self.line.set_exception(EOFError())


@contextmanager
def open_terminal(*, may_ask: bool = True, stdin_is_taken: bool = False) -> Generator[Terminal]:
    """Open the terminal this runs in. There is a person only where questions can be shown and lines typed.

    `stdin_is_taken`: stdin had something else to say, so a person types into the terminal itself.
    """
    console = Console(stderr=True)
    with ExitStack() as stack:
        source: IO[str] | None = None
        if may_ask and sys.stderr.isatty():
            if stdin_is_taken:
                with suppress(OSError):
                    source = stack.enter_context(open("/dev/tty"))
            elif sys.stdin.isatty():
                source = sys.stdin
        yield Terminal(console, source)
