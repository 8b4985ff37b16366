"""`slipway freeze`: times in which releases neither start nor advance."""

from typing import Annotated

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of
from slipway.cli.moments import with_zone
from slipway.cli.options import Number, Reason, RequiredReason
from slipway.client import at

app = typer.Typer(help="Freezes: times in which releases neither start nor advance.", no_args_is_help=True)
Team = Annotated[str, typer.Option("--team", help="Of this team; default: of all teams.")]

COLUMNS: Columns = {
    "ID": "id",
    "NAME": "name",
    "TEAM": lambda row: row["team"] or "all",
    "SERVICE": lambda row: row["service"] or "all",
    "STAGE": lambda row: row["stage"] or "all",
    "EFFECT": "effect",
    "FROZEN NOW": lambda row: "yes" if row["is_frozen"] else "no",
    "UNTIL": "frozen_until",
    "RECURRENCE": lambda row: "until it is ended" if row["minutes"] is None else row["recurrence"] or "once",
}


@app.command("list")
def list_freezes(typer_context: typer.Context) -> None:
    """List freeze windows and stops."""
    context_of(typer_context).each(at("freezes"), COLUMNS)


@app.command("add")
def add(
    typer_context: typer.Context,
    name: str,
    start: Annotated[str, typer.Option("--start", help="First begin, such as 2026-12-24T18:00+01:00.")],
    hours: Annotated[float, typer.Option("--hours", min=0.02, help="Length of each time.")],
    team: Team = "",
    service: Annotated[str, typer.Option("--service", help="Only this service.")] = "",
    stage: Annotated[
        str, typer.Option("--stage", help="Only services in this stage: production, or chat/production.")
    ] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="Only services of this cluster.")] = "",
    recurrence: Annotated[
        str, typer.Option("--recurrence", help="Rule of RFC 5545: FREQ=WEEKLY;BYDAY=FR; default: once.")
    ] = "",
    zone: Annotated[str, typer.Option("--zone", help="IANA time zone by whose clock it recurs.")] = "UTC",
    allow: Annotated[bool, typer.Option("--allow", help="Freeze outside of these times instead.")] = False,
    reason: Reason = "",
) -> None:
    """Add a freeze window."""
    context = context_of(typer_context)
    body = {
        "name": name,
        "team": team or None,
        "service": service,
        "stage": stage,
        "cluster": cluster or None,
        "effect": "allow" if allow else "deny",
        "starts_at": with_zone(context, start),
        "zone": zone,
        "minutes": round(hours * 60),
        "recurrence": recurrence,
        "reason": reason,
    }
    row = context.client.create(at("freezes"), body)
    note = " No service is meant by it yet: look at its names." if row["concerns_nothing"] else ""
    context.tell(row, f"Freeze {row['id']}, {row['name']}, was created.{note}")


@app.command("stop")
@confirmed(
    lambda _context, given: f"Stop all releases of {given['team'] or 'all teams'}? Traffic stays as it is."
)
def stop(typer_context: typer.Context, team: Team = "", reason: RequiredReason = "") -> None:
    """Stop the line: no release starts or advances until the stop is ended; rollbacks go on."""
    context = context_of(typer_context)
    row = context.client.create(at("freezes", "stop"), {"team": team or None, "reason": reason})
    context.tell(row, f"Releases are stopped. `slipway freeze end {row['id']}` lets them continue.")


@app.command("end")
@confirmed("End freeze {number}? Releases that it holds continue.")
def end(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """End a freeze window or a stop."""
    context = context_of(typer_context)
    context.client.delete(at("freezes", number), reason=reason)
    context.progress.print(f"Freeze {number} is ended.", markup=False)
