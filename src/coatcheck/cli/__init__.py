"""The command line: one module per command, gathered here."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import coatcheck
from coatcheck.cli.serve import serve
from coatcheck.errors import CoatcheckError

app = typer.Typer(
    name="coatcheck",
    help="Durable, pollable tool calls for the Model Context Protocol: hand in a slow call, collect the result later.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command()(serve)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(coatcheck.__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take what is common to all commands."""


def main() -> None:
    """Run the command line; what it refuses is told in a sentence, not in a traceback."""
    try:
        app()
    except CoatcheckError as error:
        typer.secho(f"coatcheck: {error}", fg="red", err=True)
        sys.exit(2)
