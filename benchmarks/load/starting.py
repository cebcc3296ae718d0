"""From the start of a server's process to its first answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from benchmarks.load.meter import Metrics, cpu_seconds, rss_mb
from benchmarks.load.session import Address, Session

_LOOK_AGAIN_SECONDS = 0.005


async def answered(address: Address, exit_code: Callable[[], int | None], method: str = "tools/list") -> None:
    """Wait until a process that was just started answers.

    Raises:
        SystemExit: It has ended instead.
    """
    while True:
        try:
            async with Session(address) as session:
                await session.request(method)
                return
        except OSError:
            if exit_code() is not None:
                raise SystemExit(f"the server's command ended with {exit_code()}") from None
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def start(address: Address, *, command: Sequence[str], method: str) -> Metrics:
    """Start the server's command, wait for the first answer, stop it."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(*command)
    try:
        await answered(address, lambda: process.returncode, method)
        return {
            "first_answer_ms": (time.perf_counter() - began) * 1e3,
            "cpu_s": cpu_seconds(process.pid),
            "rss_mb": rss_mb(process.pid),
        }
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
