"""The command line: one module per command, imported when it is called; what they refuse is told in a sentence."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import coatcheck
from coatcheck.cli.commands import Commands
from coatcheck.cli.failures import report

app = typer.Typer(
    name="coatcheck",
    cls=Commands,
    help="Durable, pollable tool calls for the Model Context Protocol: hand in a slow call, collect the result later.",
    epilog="Exit codes and more: docs/cli.md. Every command explains itself: coatcheck call --help",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(coatcheck.__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take what is common to all commands."""


def main() -> None:
    """Run the command line, and end with an exit code that says how it went."""
    try:
        sys.exit(app(args=sys.argv[1:] or ["--help"], prog_name="coatcheck", standalone_mode=False))
    except (Exception, KeyboardInterrupt) as error:
        sys.exit(report(error))
