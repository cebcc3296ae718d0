"""Notifications the SDK has no words for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types

from coatcheck.server.hook import RequestContext


class RawNotification(types.Notification[dict[str, Any] | None, str]):
    method: str
    params: dict[str, Any] | None


async def notify(ctx: RequestContext, method: str, params: Mapping[str, Any] | None, *, own_stream: bool) -> None:
    """Send a notification, on the request's own stream or on the standing one of its connection."""
    sent = RawNotification(method=method, params=None if params is None else dict(params))
    await ctx.session.send_notification(cast("Any", sent), related_request_id=ctx.request_id if own_stream else None)
