"""`slipway upload`: uploads of files to a model, as `models push` makes them."""

from typing import Annotated

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of, size
from slipway.cli.options import Number, Reason, States
from slipway.client import Document, at

app = typer.Typer(help="Uploads; `models push` starts and resumes them.", no_args_is_help=True)

UNDER_WAY = ["open", "importing"]


COLUMNS: Columns = {
    "ID": "id",
    "MODEL": "model",
    "STATE": "state",
    "FILES": "file_count",
    "SIZE": lambda row: size(row["size_bytes"]),
    "UPLOADED": lambda row: _sent(row),
    "VERSION": "version",
    "BY": "author",
    "EXPIRES": "expires_at",
    "FROM": "origin",
}
MISSING_COLUMNS: Columns = {
    "MISSING": lambda row: row["sha256"][:12],
    "SIZE": lambda row: size(row["size"]),
    "RECEIVED": lambda row: size(row["received_bytes"]),
}


@app.command("list")
def list_uploads(
    typer_context: typer.Context,
    model: Annotated[str | None, typer.Argument(help="Default: all models.")] = None,
    state: States = None,
    every: Annotated[bool, typer.Option("--all", help="Finished ones, too.")] = False,
) -> None:
    """List active uploads to a model, or to all, newest first."""
    context = context_of(typer_context)
    states = state or ([] if every else UNDER_WAY)
    address = at("models", model, "uploads") if model is not None else at("uploads")
    context.each(address, COLUMNS, state=states)


@app.command("show")
def show(typer_context: typer.Context, model: str, number: Number) -> None:
    """Show an upload and its missing files."""
    context = context_of(typer_context)
    upload = context.client.get(at("models", model, "uploads", number))
    context.show(upload)
    _say(context, upload)
    context.tabulate(upload["missing"], MISSING_COLUMNS)


@app.command("cancel")
@confirmed("Cancel upload {number} and delete what was received?")
def cancel(typer_context: typer.Context, model: str, number: Number, reason: Reason = "") -> None:
    """Cancel an upload and delete what was received."""
    context = context_of(typer_context)
    address = at("models", model, "uploads", number, "cancel")
    upload = context.client.create(address, {"reason": reason})
    context.show(upload)
    _say(context, upload)


def _say(context: CliContext, upload: Document) -> None:
    sent = f", {_sent(upload)} uploaded" if upload["total_bytes"] else ""
    context.say(f"Upload {upload['id']} to {upload['model']} is {upload['state']}{sent}")
    if why := upload["stuck"] or upload["reason"]:
        context.say(why)


def _sent(upload: Document) -> str:
    total = upload["total_bytes"]
    return f"{100 * upload['received_bytes'] // total} %" if total else ""
