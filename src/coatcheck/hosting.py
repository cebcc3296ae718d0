"""Where this process runs: on a platform that freezes it between requests, the tasks it takes would never be run."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from coatcheck.errors import InvalidArgument

logger = logging.getLogger("coatcheck")

_PLATFORMS: Mapping[str, tuple[str, ...]] = {
    "AWS Lambda": ("AWS_LAMBDA_FUNCTION_NAME",),
    "Google Cloud Functions": ("FUNCTION_TARGET", "K_SERVICE"),
    "Azure Functions": ("FUNCTIONS_WORKER_RUNTIME",),
    "Vercel": ("VERCEL",),
    "Netlify": ("NETLIFY",),
    "Alibaba Cloud Function Compute": ("FC_FUNCTION_NAME",),
    "Tencent Cloud SCF": ("SCF_FUNCTIONNAME",),
    "OpenWhisk": ("__OW_ACTION_NAME",),
}
"""By the variables that a platform sets, all of them. Cloud Run is not here: whether it freezes is up to its settings,
and a process cannot tell."""
_SYSTEMS: Mapping[str, str] = {"emscripten": "WebAssembly (Pyodide, Cloudflare Workers)", "wasi": "WebAssembly (WASI)"}
_PRIVATE = frozenset({"memory", "sqlite"})
"""Stores that nobody else reaches from there."""
_said: set[str] = set()


def platform_that_freezes(environment: Mapping[str, str] = os.environ, system: str = sys.platform) -> str | None:
    """Return the name of the serverless or edge platform this process runs on, if it does."""
    if system in _SYSTEMS:
        return _SYSTEMS[system]
    for name, variables in _PLATFORMS.items():
        if all(environment.get(variable) for variable in variables):
            return name
    return None


def complaint(
    slots: int, store: str, environment: Mapping[str, str] = os.environ, system: str = sys.platform
) -> str | None:
    """Return what is wrong with running `slots` tasks of the store at this URL in this process, if anything is.

    A process that only takes tasks in may be frozen: others, elsewhere, run them, if they can reach the store.
    """
    platform = platform_that_freezes(environment, system)
    is_shared = urlsplit(store).scheme not in _PRIVATE
    if platform is None or (slots == 0 and is_shared):
        return None
    where = "the same store" if is_shared else "a store that both can reach, redis:// or postgresql://"
    return (
        f"This is {platform}, where a process is frozen or ended between requests: tasks would be accepted and never "
        f"run. Set concurrency=0 here and run workers elsewhere, on {where}."
    )


def check_host(
    slots: int,
    store: str,
    *,
    strict: bool,
    environment: Mapping[str, str] = os.environ,
    system: str = sys.platform,
) -> None:
    """Refuse a host that cannot run tasks if `strict`, else say so in the log, once.

    Raises:
        InvalidArgument: The host cannot run tasks.
    """
    said = complaint(slots, store, environment, system)
    if said is None:
        return
    if strict:
        raise InvalidArgument(said)
    if said not in _said:
        _said.add(said)
        logger.warning("%s", said)
