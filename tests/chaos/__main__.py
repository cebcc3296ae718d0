"""`make chaos`: the same for as long as one likes, on one store after the other, in rounds with seeds of their own."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.chaos.places import KINDS
from tests.chaos.run import Chaos, a_seed, run

_ROUND = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long, over all stores")
    parser.add_argument("--seed", type=int, default=None, help="the seed of the first round; the others follow from it")
    parser.add_argument("--store", choices=KINDS, action="append", help="which stores; all, unless it is given")
    given = parser.parse_args()
    seed = a_seed() if given.seed is None else given.seed
    return asyncio.run(_rounds(given.minutes * 60, seed, given.store or KINDS))


async def _rounds(seconds: float, seed: int, kinds: list[str] | tuple[str, ...]) -> int:
    until, number = time.monotonic() + seconds, 0
    length = min(_ROUND, seconds / len(kinds))
    while number < len(kinds) or time.monotonic() < until:
        kind, round_seed = (
            kinds[number % len(kinds)],
            seed if number == 0 else Random(f"{seed}/{number}").randrange(2**32),
        )
        number += 1
        with tempfile.TemporaryDirectory(prefix="coatcheck-chaos-") as folder:
            print(f"round {number}: --store {kind} --seed {round_seed}", flush=True)
            verdict = await run(Chaos(kind, round_seed, length, Path(folder)))
        print(verdict.summary, flush=True)
        if verdict.wrongs:
            print(*verdict.events, sep="\n")
            print("WRONG", *verdict.wrongs, sep="\n  ")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
