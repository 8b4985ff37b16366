"""`slipway sync`: syncs of followed repositories, those that run and those that are over."""

from typing import Annotated

import typer

from slipway.cli.context import Context, context_of
from slipway.cli.options import Limit, Number, OnlyModel, States, Timeout, WaitForEnd
from slipway.cli.syncs import DONE
from slipway.cli.transfers import add_verbs, how_far, seen_through
from slipway.client import Document, at

app = typer.Typer(
    help="Syncs of followed repositories; `models sync` begins one and waits for it.", no_args_is_help=True
)


@app.command("list")
def list_syncs(
    typer_context: typer.Context,
    model: OnlyModel = "",
    source: Annotated[int | None, typer.Option("--source", help="Only of this source.")] = None,
    state: States = None,
    limit: Limit = 20,
) -> None:
    """Syncs, newest first."""
    context = context_of(typer_context)
    asked = {"model": model, "source": source, "state": state}
    rows = context.client.get(at("hub-syncs"), limit=limit, **asked)["results"]
    context.show(rows)
    context.table(
        ("ID", "MODEL", "REPOSITORY", "STATE", "VERSION", "COMMIT", "BY", "BEGAN"),
        (
            (
                row["id"],
                row["model"],
                row["repository"],
                "stuck" if row["stuck"] else row["state"] + (f": {row['cause']}" if row["cause"] else ""),
                row["version"],
                row["commit"][:12],
                row["author_name"],
                row["began_at"],
            )
            for row in rows
        ),
    )


@app.command("show")
def show(
    typer_context: typer.Context, number: Number, wait: WaitForEnd = False, timeout: Timeout = 3600
) -> None:
    """One sync: the commit that it found, how far it is, what became of it."""
    context = context_of(typer_context)
    address = at("hub-syncs", number)
    document = context.client.get(address)
    if wait:
        going = ("resolving", "fetching")
        document = seen_through(context, document, address, timeout, noun="sync", going=going, done=DONE)
    context.show(document)
    _say(context, document)


def _say(context: Context, document: Document) -> None:
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
        "pause": "Stop fetching and keep what has come.",
        "resume": "Go on with what has come, after a pause or an interruption.",
        "cancel": "Stop, and remove what has come.",
        "retry": "Begin a failed, refused or cancelled sync again.",
    },
    tell=_say,
)
