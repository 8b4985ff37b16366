"""`slipway stuck`: rows of every kind that wait for a person or have failed for minutes."""

from typing import Annotated

import typer

from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.options import RequiredReason
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(
    help="What is stuck and waits for a person, or has failed for minutes.", no_args_is_help=True
)

Kind = Annotated[str, typer.Argument(metavar="KIND", help="Name from `list`: releases.release.")]
Id = Annotated[int, typer.Argument(metavar="ID", help="Number from `list`.")]


COLUMNS: Columns = {
    "KIND": "kind",
    "ID": "id",
    "WHAT": "title",
    "STATE": "state",
    "SINCE": "since",
    "LAST ERROR": "why",
}


@app.command("list")
def list_stuck(typer_context: typer.Context) -> None:
    """List stuck rows that you may see, the longest first, with the effects in doubt."""
    context = context_of(typer_context)
    rows = context.client.get(at("stuck"))["results"]
    context.rows(rows, COLUMNS)
    for row in rows:
        for doubt in row["doubts"]:
            wanted = ", ".join(f"{name} {value}" for name, value in doubt["wanted"].items())
            context.say(
                f"Did it happen? {row['kind']} {row['id']} {doubt['op_key']!r}: {doubt['step']} {wanted}"
            )


@app.command("retry")
def retry(typer_context: typer.Context, kind: Kind, number: Id, reason: RequiredReason = "") -> None:
    """Begin the step of a stuck row anew."""
    context = context_of(typer_context)
    body = {"reason": reason}
    _say(context, context.client.create(at("stuck", kind, number, "retry"), body))


@app.command("answer")
def answer(
    typer_context: typer.Context,
    kind: Kind,
    number: Id,
    op_key: Annotated[str, typer.Argument(metavar="OP_KEY", help="Key of the effect from `list`.")],
    happened: Annotated[
        bool | None, typer.Option("--happened/--did-not-happen", help="Whether the effect took place.")
    ] = None,
    reason: RequiredReason = "",
) -> None:
    """Say whether an effect in doubt took place; after the last answer the row goes on."""
    if happened is None:
        raise CommandFailed("Say --happened or --did-not-happen.", Exit.USAGE)
    context = context_of(typer_context)
    body = {"op_key": op_key, "happened": happened, "reason": reason}
    _say(context, context.client.create(at("stuck", kind, number, "answer"), body))


def _say(context: CliContext, row: Document) -> None:
    context.show(row)
    rest = "still waits for an answer" if row["stuck"] else "goes on"
    context.say(f"{row['kind']} {row['id']} {rest}.")
