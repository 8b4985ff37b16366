from typing import Annotated
from urllib.parse import urlencode

import typer

from slipway.cli.context import context_of
from slipway.cli.names import split_version
from slipway.cli.options import VersionLabel

app = typer.Typer(help="Aliases: names that move between versions, and remember.", no_args_is_help=True)


@app.command("set")
def set_alias(
    typer_context: typer.Context,
    alias: Annotated[str, typer.Argument(help="For example production.")],
    version: VersionLabel,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the history.")] = "",
) -> None:
    """Point an alias at a version."""
    context = context_of(typer_context)
    model, name = split_version(version)
    body = {"version": name, "reason": context.asked_for(reason)}
    document = context.client.put(f"models/{model}/aliases/{alias}/", body)
    context.show(document)
    context.say(f"{model}:{alias} is {name}")


@app.command("history")
def history(
    typer_context: typer.Context,
    alias: str,
    model: Annotated[str, typer.Option("--model", "-m")],
    at: Annotated[str, typer.Option(help="Only what was in force then, such as 2026-03-03T14:00Z.")] = "",
) -> None:
    """Who pointed the alias at what, when, and why."""
    context = context_of(typer_context)
    query = f"?{urlencode({'at': at})}" if at else ""
    rows = list(context.client.each(f"models/{model}/aliases/{alias}/history/{query}"))
    context.show(rows)
    context.table(
        ("AT", "FROM", "TO", "BY", "WHY"),
        (
            (row["at"], row.get("from_version"), row.get("to_version"), row.get("by"), row.get("reason"))
            for row in rows
        ),
    )
