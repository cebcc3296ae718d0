"""A person with a prepared text, to have dialogues with."""

from __future__ import annotations


class Scripted:
    """Types these lines, and then no more."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.shown: list[str] = []

    def show(self, text: str, style: str = "") -> None:
        self.shown.append(text)

    async def type(self, prompt: str) -> str:
        self.shown.append(prompt)
        if not self._lines:
            raise EOFError
        return self._lines.pop(0)

    @property
    def untyped(self) -> list[str]:
        return self._lines

    def was_told(self, words: str) -> bool:
        return any(words in line for line in self.shown)
