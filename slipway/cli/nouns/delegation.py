"""`slipway delegation`: approvals given in the place of people who are away."""

from typing import Annotated

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of
from slipway.cli.moments import with_zone
from slipway.cli.options import Number, Reason
from slipway.client import at

app = typer.Typer(help="Approvals given in the place of people who are away.", no_args_is_help=True)

COLUMNS: Columns = {
    "ID": "id",
    "DELEGATE": "delegate",
    "IN THE PLACE OF": "person",
    "TEAM": "team",
    "FROM": "starts_at",
    "TO": lambda row: row["ended_at"] or row["ends_at"] or "until it is ended",
}


@app.command("list")
def list_delegations(typer_context: typer.Context) -> None:
    """List delegations, those that have ended too."""
    context_of(typer_context).each(at("delegations"), COLUMNS)


@app.command("add")
def add(
    typer_context: typer.Context,
    team: str,
    delegate: Annotated[str, typer.Argument(help="Who approves.")],
    person: Annotated[str, typer.Option("--person", help="Who is away; default: you.")] = "",
    until: Annotated[str, typer.Option("--until", help="Such as 2027-01-04T08:00Z; default: open.")] = "",
    reason: Reason = "",
) -> None:
    """Let another person approve releases of a team."""
    context = context_of(typer_context)
    body = {"team": team, "delegate": delegate, "reason": reason}
    body |= {"person": person} if person else {}
    body |= {"ends_at": with_zone(context, until)} if until else {}
    row = context.client.create(at("delegations"), body)
    context.tell(row, f"{row['delegate']} may approve in the place of {row['person']}.")


@app.command("end")
@confirmed("End delegation {number}?")
def end(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """End a delegation now."""
    context = context_of(typer_context)
    context.client.delete(at("delegations", number), reason=reason)
    context.progress.print(f"Delegation {number} is ended.", markup=False)
