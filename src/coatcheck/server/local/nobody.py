"""The SDK's `DispatchContext` of a call that no client sent: there is nobody to ask or to tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import anyio
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.transport_context import TransportContext

_TRANSPORT = TransportContext(kind="local", can_send_request=False)


class Nobody:
    """What has to be asked is asked by the task, and kept until somebody answers."""

    transport = _TRANSPORT
    can_send_request = False
    message_metadata = None
    request_id = None

    @property
    def cancel_requested(self) -> anyio.Event:
        """Never set."""
        return anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> NoReturn:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """There is nobody to tell."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """There is nobody to tell."""
