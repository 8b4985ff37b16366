"""`slipway environment`: which version is where, and its promotion from stage to stage."""

from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of
from slipway.cli.options import Number, Reason
from slipway.client import at

app = typer.Typer(help="Environments: services in the order in which versions pass.", no_args_is_help=True)

COLUMNS: Columns = {
    "ID": "id",
    "NAME": "name",
    "TEAM": "team",
    "STAGES": lambda row: " -> ".join(f"{one['name']} {one['version'] or '-'}" for one in row["stages"]),
}
STAGES: Columns = {
    "STAGE": "name",
    "SERVICE": "service",
    "VERSION": "version",
    "SINCE": "since",
    "AHEAD": lambda row: ", ".join(row["ahead"]),
    "DRIFT": lambda row: ", ".join(row["drift"]),
    "RELEASE": "release",
    "FROZEN": lambda row: (row["frozen_until"] or "until it is ended") if row["is_frozen"] else "",
    "NOT PROMOTED": "refusal",
}


@app.command("list")
def list_environments(typer_context: typer.Context) -> None:
    """List environments and the version of each stage."""
    context_of(typer_context).each(at("environments"), COLUMNS)


@app.command("show")
def show(typer_context: typer.Context, number: Number) -> None:
    """Show stages: version, since when, what is ahead, and settings that drift."""
    context = context_of(typer_context)
    document = context.client.get(at("environments", number))
    context.show(document)
    context.tabulate(document["stages"], STAGES)


@app.command("add")
def add(
    typer_context: typer.Context,
    name: str,
    team: Annotated[str, typer.Option("--team", help="Owner.")],
    stage: Annotated[
        list[str],
        typer.Option("--stage", help="STAGE=SERVICE, in their order; a ! at the end promotes automatically."),
    ],
) -> None:
    """Put services in an order: versions come from the stage before."""
    context = context_of(typer_context)
    body = {"name": name, "team": team, "stages": [_stage(one) for one in stage]}
    row = context.client.create(at("environments"), body)
    context.tell(row, f"Environments {row['id']}, {row['name']}, were created.")


@app.command("change")
def change(
    typer_context: typer.Context,
    number: Number,
    stage: Annotated[
        list[str],
        typer.Option("--stage", help="STAGE=SERVICE, all in their order; a ! promotes automatically."),
    ],
    reason: Reason = "",
) -> None:
    """Put other services in the order, or the same ones in another one."""
    context = context_of(typer_context)
    body = {"stages": [_stage(one) for one in stage], "reason": reason}
    row = context.client.patch(at("environments", number), body)
    context.tell(row, f"Environments {row['id']}, {row['name']}, were changed.")


@app.command("promote")
@confirmed("Release to {stage} what the stage before it serves?")
def promote(typer_context: typer.Context, number: Number, stage: str, reason: Reason = "") -> None:
    """Release to a stage what the stage before it serves, by the plan of its service."""
    context = context_of(typer_context)
    body = {"stage": stage, "reason": reason}
    release = context.client.create(at("environments", number, "promote"), body)
    context.tell(
        release, f"Release {release['id']} of {release['version']} to {release['service']} has started."
    )


@app.command("remove")
@confirmed("Forget environments {number}? Their services stay.")
def remove(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Forget environments; their services stay."""
    context = context_of(typer_context)
    context.client.delete(at("environments", number), reason=reason)
    context.progress.print(f"Environments {number} are forgotten.", markup=False)


def _stage(text: str) -> dict[str, Any]:
    name, sign, service = text.rstrip("!").partition("=")
    if not (name and sign and service):
        raise typer.BadParameter(f"{text} is no STAGE=SERVICE.", param_hint="--stage")
    return {"name": name, "service": service, "is_automatic": text.endswith("!")}
