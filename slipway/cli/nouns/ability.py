"""`slipway ability`: addresses that lead to the workers of several services."""

from typing import Annotated

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of
from slipway.cli.options import OnlyTeam, Reason
from slipway.client import at

app = typer.Typer(help="Abilities: addresses of workers of several services.", no_args_is_help=True)
COLUMNS: Columns = {
    "NAME": "name",
    "ABILITY": "ability",
    "TEAM": "team",
    "STATE": "state",
    "SERVICES": lambda row: ", ".join(row["services"]),
    "WORKERS": "workers",
    "SLOTS": "slots",
}


@app.command("list")
def list_abilities(typer_context: typer.Context, team: OnlyTeam = "") -> None:
    """List abilities that have an address."""
    context_of(typer_context).each(at("abilities"), COLUMNS, **({"team": team} if team else {}))


@app.command("show")
def show(typer_context: typer.Context, name: str) -> None:
    """Show the address of an ability, and who answers there."""
    context = context_of(typer_context)
    context.show(context.client.get(at("abilities", name)))


@app.command("create")
def create(
    typer_context: typer.Context,
    name: Annotated[str, typer.Argument(help="First part of its address: /NAME/...")],
    team: Annotated[str, typer.Option("--team", help="Whose services answer there.")] = "default",
    ability: Annotated[
        str, typer.Option("--ability", help="As workers register it; default: the name.")
    ] = "",
    cluster: Annotated[
        str,
        typer.Option("--cluster", help="Default: one whose gateway is envoy, else the first with a gateway."),
    ] = "",
) -> None:
    """Give an ability an address at a gateway."""
    context = context_of(typer_context)
    given = {"name": name, "team": team, "ability": ability, "cluster": cluster}
    row = context.client.create(at("abilities"), {key: value for key, value in given.items() if value})
    context.tell(row, f"{row['address']} leads to workers with the ability {row['ability']}.")


@app.command("delete")
@confirmed("Delete the address of ability {name}?")
def delete(typer_context: typer.Context, name: str, reason: Reason = "") -> None:
    """Delete the address of an ability; its services keep theirs."""
    context = context_of(typer_context)
    context.client.delete(at("abilities", name), reason=reason)
    context.say(f"{name} has no address any more.")
