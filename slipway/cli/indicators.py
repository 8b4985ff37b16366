"""`slipway service indicator`: indicators that others than a service's workers count."""

import json
from pathlib import Path
from typing import Annotated

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of
from slipway.cli.options import Reason
from slipway.client import at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Indicators that are pushed, or queried of Prometheus.", no_args_is_help=True)
COLUMNS: Columns = {
    "NAME": "name",
    "SOURCE": "source",
    "BAD": "bad_query",
    "DESCRIPTION": "description",
    "BY": "defined_by",
}


@app.command("list")
def list_indicators(typer_context: typer.Context, service: str) -> None:
    """List the indicators of a service."""
    context = context_of(typer_context)
    context.rows(context.client.get(at("services", service, "indicators"))["results"], COLUMNS)


@app.command("define")
def define(
    typer_context: typer.Context,
    service: str,
    name: str,
    all_query: Annotated[
        str, typer.Option("--all", help="PromQL of the counters of all events, with $version in it.")
    ] = "",
    bad_query: Annotated[str, typer.Option("--bad", help="PromQL of the bad ones.")] = "",
    url: Annotated[
        str, typer.Option("--url", help="Address of the Prometheus; default: the gateway's of the cluster.")
    ] = "",
    description: Annotated[str, typer.Option("--description", help="Meaning of a bad event.")] = "",
    reason: Reason = "",
) -> None:
    """Define an indicator, or change it; without queries its counts are pushed."""
    context = context_of(typer_context)
    body = {
        "source": "prometheus" if all_query or bad_query else "pushed",
        "all_query": all_query,
        "bad_query": bad_query,
        "url": url,
        "description": description,
        "reason": reason,
    }
    row = context.client.put(at("services", service, "indicators", name), body)
    context.tell(row, f"{name} is an indicator of {service} ({row['source']}); plans judge it by its name")


@app.command("remove")
@confirmed("Remove indicator {name} of {service} with its counts?")
def remove(typer_context: typer.Context, service: str, name: str, reason: Reason = "") -> None:
    """Remove an indicator with its counts."""
    context = context_of(typer_context)
    context.client.delete(at("services", service, "indicators", name), reason=reason)
    context.tell({"service": service, "name": name}, f"{name} is removed")


@app.command("push")
def push(
    typer_context: typer.Context,
    service: str,
    name: str,
    file: Annotated[
        Path,
        typer.Argument(help="JSON list of version, at, seconds, events, bad.", exists=True, dir_okay=False),
    ],
) -> None:
    """Push counts of an indicator; pushing them again, or late, does no harm."""
    context = context_of(typer_context)
    try:
        counts = json.loads(file.read_text())
    except ValueError as error:
        raise CommandFailed(f"{file} is no JSON: {error}", Exit.USAGE) from None
    found = context.client.post(at("services", service, "indicators", name, "counts"), {"counts": counts})
    told = f"{found['kept']} kept, {found['known']} known already"
    if found["different"]:
        told += f", {len(found['different'])} there already with other counts, which stay"
    context.tell(found, told)
