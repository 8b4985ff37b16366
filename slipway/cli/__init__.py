"""The `slipway` command: one file per noun."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from slipway.cli.context import CliContext, CliEnvironment, OutputFormat
from slipway.cli.nouns import Nouns
from slipway.exits import CommandFailed, Exit

app = typer.Typer(
    name="slipway",
    cls=Nouns,
    help="Model versions, services and releases, from a terminal or a pipeline.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _refused(token: str) -> str:
    if token:
        raise CommandFailed(
            "Every user of this machine can read a command's arguments: put the token into SLIPWAY_TOKEN, "
            "or into a file for --token-file (- is standard input).",
            Exit.USAGE,
        )
    return token


@app.callback()
def settings(
    typer_context: typer.Context,
    url: Annotated[
        str, typer.Option("--url", envvar="SLIPWAY_URL", help="Address of the console.")
    ] = "http://127.0.0.1:8000",
    token: Annotated[
        str,
        typer.Option("--token", hidden=True, callback=_refused),
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            envvar="SLIPWAY_TOKEN_FILE",
            help="File with the API token, - for standard input; SLIPWAY_TOKEN holds the token itself.",
        ),
    ] = None,
    output: Annotated[
        OutputFormat, typer.Option("--output", "-o", help="json: one document on stdout, messages on stderr.")
    ] = OutputFormat.TEXT,
) -> None:
    token = os.environ.get("SLIPWAY_TOKEN", "")
    typer_context.obj = CliContext(
        url=url, token=token, token_file=token_file, output=output, outside=typer_context.obj
    )


@cache
def command() -> Callable[..., object]:
    """The tree of all commands, built once: that takes longer than most of them."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None, *, outside: CliEnvironment | None = None) -> None:
    """Entry point: maps what can go wrong to the exit statuses of `slipway.exits`. Always exits."""
    try:
        command()(arguments, obj=outside or CliEnvironment())
    except CommandFailed as failure:
        sys.stderr.write(f"slipway: {failure}\n")
        sys.exit(failure.exit)
    except KeyboardInterrupt:
        sys.stderr.write("slipway: interrupted; what was started on the server continues.\n")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
