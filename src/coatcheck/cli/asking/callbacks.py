"""What servers ask, put to the person at the terminal: one question after another, the display paused meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from pydantic import ValidationError

from coatcheck.cli.asking.dialogue import answer_form
from coatcheck.cli.asking.link import answer_link
from coatcheck.cli.asking.model import MODEL, answer_for_model
from coatcheck.cli.display import Display
from coatcheck.cli.schemas import resolved
from coatcheck.cli.terminal import Terminal

_DECLINED = types.ErrorData(code=-1, message="The person declined to answer for the model")


class Absence:
    """The SDK's callbacks where there is nobody: a question stays open, and `asked` has what it says."""

    def __init__(self) -> None:
        self.asked: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def elicit(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        return await self._leave_open(params.message)

    async def sample(
        self, context: object, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        return await self._leave_open("something of a model")

    async def _leave_open(self, what: str) -> Any:
        if not self.asked.done():
            self.asked.set_result(what)
        await asyncio.Event().wait()


class Asking:
    """The SDK's callbacks. They may be called at the same time; they wait for each other."""

    def __init__(self, terminal: Terminal, display: Display) -> None:
        self._terminal, self._display = terminal, display

    async def elicit(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        answer = await self.answer("elicitation/create", _words(params))
        assert answer
        try:
            return types.ElicitResult.model_validate(answer)
        except ValidationError:  # content that the protocol has no words for, but the server asked for it
            return types.ElicitResult.model_construct(**answer)

    async def sample(
        self, context: object, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        answer = await self.answer("sampling/createMessage", _words(params))
        return types.CreateMessageResult.model_validate(answer) if answer else _DECLINED

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Put a question in the protocol's own words; return the answer in these; None: there is none."""
        message = str(params.get("message", ""))
        async with self._floor():
            match method, params:
                case "elicitation/create", {"mode": "url", "url": str(url)}:
                    return await answer_link(self._terminal, message, url)
                case "elicitation/create", _:
                    return await answer_form(self._terminal, message, resolved(params.get("requestedSchema"), {}))
                case "sampling/createMessage", _:
                    said = await answer_for_model(self._terminal, params)
                    return None if said is None else _as_model(said)
                case _:
                    self._terminal.show(f"The server asks for {method}, which cannot be answered here.", "yellow")
                    return None

    @asynccontextmanager
    async def _floor(self) -> AsyncGenerator[None]:
        """Have the terminal for oneself, and nothing in it that was typed before."""
        async with self._terminal.turn:
            with self._display.paused():
                self._terminal.forget_typed()
                try:
                    yield
                except asyncio.CancelledError:
                    self._terminal.withdraw()
                    raise


def _words(params: types.RequestParams) -> dict[str, Any]:
    return params.model_dump(by_alias=True, mode="json", exclude_none=True)


def _as_model(said: str) -> dict[str, Any]:
    content = {"type": "text", "text": said}
    return {"role": "assistant", "content": content, "model": MODEL, "stopReason": "endTurn"}
