"""`coatcheck resume`: everything that was left, waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coatcheck.cli import options
from coatcheck.cli.durations import seconds
from coatcheck.cli.later import later
from coatcheck.cli.running import run

if TYPE_CHECKING:
    from coatcheck.cli import resuming
else:
    resuming = later("coatcheck.cli.resuming")


def resume(
    timeout: options.Timeout = None,
    target: options.OneServer = None,
    header: options.Headers = None,
    token: options.Token = None,
    poll: options.Poll = False,
    as_json: options.AsJSON = False,
    quiet: options.Quiet = False,
) -> None:
    """Wait for every task that was left by who handed it in, and print results as they come.

    The exit code is the one that all failures share, or 1.

    Examples:

        coatcheck resume

        coatcheck resume --json --timeout 1h
    """
    access = options.access(header, token, is_polling=poll)
    collecting = resuming.resume_all(access, target, seconds(timeout), is_json=as_json, is_quiet=quiet or as_json)
    run(collecting, is_json=as_json)
