"""`slipway sync`: syncs of followed repositories, those that run and those that are over."""

from typing import Annotated

import typer

from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.options import Limit, Number, OnlyModel, States, Timeout, WaitForEnd
from slipway.cli.syncs import DONE
from slipway.cli.transfers import add_verbs, how_far, seen_through
from slipway.client import Document, at

app = typer.Typer(
    help="Syncs of followed repositories; `models sync` starts one and waits for it.", no_args_is_help=True
)


COLUMNS: Columns = {
    "ID": "id",
    "MODEL": "model",
    "REPOSITORY": "repository",
    "STATE": lambda row: (
        "stuck" if row["stuck"] else row["state"] + (f": {row['cause']}" if row["cause"] else "")
    ),
    "VERSION": "version",
    "COMMIT": lambda row: row["commit"][:8],
    "BY": "author_name",
    "STARTED": "began_at",
}


@app.command("list")
def list_syncs(
    typer_context: typer.Context,
    model: OnlyModel = "",
    source: Annotated[int | None, typer.Option("--source", help="Only of this source.")] = None,
    state: States = None,
    limit: Limit = 20,
) -> None:
    """List syncs, newest first."""
    context = context_of(typer_context)
    asked = {"model": model, "source": source, "state": state}
    rows = context.client.get(at("hub-syncs"), limit=limit, **asked)["results"]
    context.rows(rows, COLUMNS)


@app.command("show")
def show(
    typer_context: typer.Context, number: Number, wait: WaitForEnd = False, timeout: Timeout = 3600
) -> None:
    """Show a sync: its commit, its progress, its result."""
    context = context_of(typer_context)
    address = at("hub-syncs", number)
    document = context.client.get(address)
    if wait:
        going = ("resolving", "fetching")
        document = seen_through(context, document, address, timeout, noun="sync", going=going, done=DONE)
    context.show(document)
    _say(context, document)


def _say(context: CliContext, document: Document) -> None:
    told = f"Sync {document['id']} of {document['repository']} is {document['state']}"
    if document["cause"]:
        told += f" ({document['cause']})"
    if progress := document["progress"]:
        told += f": {document['model']}:{document['version']}{how_far(progress)}"
    context.say(told)
    if why := document["stuck"] or document["reason"]:
        context.say(why)


add_verbs(
    app,
    at("hub-syncs"),
    {
        "pause": "Pause a sync; downloaded files are kept.",
        "resume": "Resume a paused or interrupted sync.",
        "cancel": "Cancel a sync and delete what it downloaded.",
        "retry": "Retry a failed, refused or cancelled sync.",
    },
    noun="sync",
    tell=_say,
)
