"""asyncpg as we use it: connections, what can go wrong with them, and what that means for us."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import asyncpg

from coatcheck.errors import BadStoreURL, CoatcheckError, InvalidArgument, StoreError, StoreUnavailable
from coatcheck.stores.postgres.target import Target

PATIENCE: Final = 10.0
"""Seconds an operation may take, with all the repeats a restart or failover needs."""
_CONNECT_SECONDS = 4.0
SETTINGS: Final = (
    # Plans are made once and kept, until the table is analyzed again: an index is hardly ever wrong.
    "enable_seqscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    "enable_bitmapscan = off",
    "plan_cache_mode = force_generic_plan",
    "jit = off",
    # Our functions look again after a lock was taken.
    "default_transaction_isolation = 'read committed'",
)
_PASSING_CODES = frozenset(
    {
        "25006",  # read only: it was, or will soon be, another server's turn to be written to
        "26000",  # a pooler: what was prepared was prepared elsewhere
        "40001",
        "40P01",
        "42P05",
        "53300",  # too many connections
        "55P03",
        "57014",
        "57P01",
        "57P02",
        "57P03",
        "57P05",
    }
)
_UNDONE_CODES = frozenset({"25006", "40001", "40P01", "55P03"})
_POOLED_CODES = frozenset({"26000", "42P05"})


class Connection(Protocol):
    """As much of asyncpg's as is used."""

    async def fetch(self, query: str, *values: object) -> Sequence[Any]: ...
    async def execute(self, query: str, *, timeout: float | None = None) -> str: ...
    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...
    async def remove_listener(self, channel: str, callback: Callable[..., None]) -> None: ...
    async def close(self, *, timeout: float | None = None) -> None: ...
    def add_termination_listener(self, callback: Callable[..., None]) -> None: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


async def connect(target: Target, *settings: str, is_pooled: bool = False) -> Connection:
    """Open a connection. `is_pooled`: nothing may be left on it from one transaction to the next."""
    options: dict[str, Any] = {"timeout": _CONNECT_SECONDS}
    if "application_name" not in target.address:
        options["server_settings"] = {"application_name": "coatcheck"}
    if is_pooled:
        options["statement_cache_size"] = 0
    connection: Connection = await asyncpg.connect(target.address, **options)
    if not is_pooled:
        try:
            wanted = ";".join(f"set {setting}" for setting in (*SETTINGS, *settings))
            await connection.execute(wanted, timeout=_CONNECT_SECONDS)
        except BaseException:
            connection.terminate()
            raise
    return connection


def is_passing(error: BaseException) -> bool:
    """Say whether the same may well succeed in a moment, on another connection if need be."""
    if isinstance(error, asyncpg.InterfaceError):
        return not isinstance(error, ValueError)  # those are ours: values that cannot be sent
    if isinstance(error, ssl.SSLCertVerificationError):
        return False
    return isinstance(
        error,
        OSError | EOFError | asyncpg.PostgresConnectionError | asyncpg.InternalClientError
        | asyncpg.InvalidCachedStatementError,
    ) or code_of(error) in _PASSING_CODES  # fmt: skip


def is_undone(error: BaseException) -> bool:
    """Say whether the server has refused all of it, so that nothing can have been carried out."""
    return code_of(error) in _UNDONE_CODES or not is_passing(error)


def is_from_pooler(error: BaseException) -> bool:
    return code_of(error) in _POOLED_CODES


def is_forbidden(error: BaseException) -> bool:
    return isinstance(error, asyncpg.InsufficientPrivilegeError)


def is_unknown_place(error: BaseException) -> bool:
    return isinstance(error, socket.gaierror)


def code_of(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


def explain(error: BaseException, target: Target) -> CoatcheckError:
    """Turn the driver's errors into ours."""
    if isinstance(error, CoatcheckError):
        return error
    said = target.without_secrets(str(error) or type(error).__name__).rstrip(".")
    code = code_of(error)
    if isinstance(error, asyncpg.ClientConfigurationError) or code == "42704":
        return BadStoreURL(f"The URL of {target.name} cannot be used: {said}; mend the URL.")
    if code.startswith("28"):
        return StoreUnavailable(f"{target.name} does not let us in: {said}; check user and password in the URL.")
    if code == "3D000":
        return StoreUnavailable(f"{target.name} has no such database: {said}; create it, or name another one.")
    if is_forbidden(error):
        return StoreUnavailable(
            f"{target.name} forbids what has to be done: {said}; grant the role usage of the schema, all on its"
            " tables and execute on its functions."
        )
    if code in ("42P01", "42883", "3F000"):
        return StoreUnavailable(f"{target.name} has lost its tables: {said}; open the store again, or restore it.")
    if code.startswith(("22", "23", "54")) or isinstance(error, ValueError | OverflowError):
        return InvalidArgument(f"{target.name} cannot keep this: {said}.")
    if code.startswith("53"):
        return StoreUnavailable(f"{target.name} has run out of something: {said}; make room for it.")
    return StoreUnavailable(f"{target.name} cannot be used just now: {said}; check that it is up and can be reached.")


def explain_refusal(error: BaseException, target: Target) -> StoreError:
    """The same for opening: nothing was to be kept yet, so what cannot be used is the URL."""
    explained = explain(error, target)
    if isinstance(explained, StoreError):
        return explained
    said = target.without_secrets(error).rstrip(".")
    return BadStoreURL(f"The URL of {target.name} cannot be used: {said}; mend the URL.")


class Backoff:
    """Longer and longer pauses, up to a moment after which it is not tried any more."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self._loop = asyncio.get_running_loop()
        self.deadline = self._loop.time() + seconds
        self._pause = 0.02

    @property
    def is_over(self) -> bool:
        return self._loop.time() >= self.deadline

    async def pause(self) -> None:
        await asyncio.sleep(self._pause * random.uniform(0.5, 1))
        self._pause = min(2 * self._pause, 1.0)
