"""`slipway exemption`: which versions that carry code may be served, and until when."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of
from slipway.cli.options import RequiredReason
from slipway.client import at

app = typer.Typer(help="Custom-code policy: exemptions for versions that contain code.", no_args_is_help=True)


COLUMNS: Columns = {
    "ID": "id",
    "TEAM": "team",
    "MODEL": lambda row: row["model"] or "every model",
    "COVERS": lambda row: "code and pickles" if row["covers_runnable"] else "code",
    "EXPIRES": lambda row: (
        row["until"] if row["in_force"] or not row["ended_at"] else f"ended {row['ended_at']}"
    ),
    "BY": "given_by",
    "REASON": "reason",
}


@app.command("list")
def list_exemptions(
    typer_context: typer.Context,
    team: Annotated[str, typer.Option("--team", help="Only of this team.")] = "",
    model: Annotated[str, typer.Option("--model", "-m", help="Only of this model.")] = "",
    ended: Annotated[bool, typer.Option("--all", help="Expired and ended ones, too.")] = False,
) -> None:
    """List active exemptions."""
    context = context_of(typer_context)
    given = {"team": team, "model": model} | ({} if ended else {"in_force": "true"})
    context.each(at("code-exemptions"), COLUMNS, **given)


@app.command("add")
@app.command("give", hidden=True)
def give(
    typer_context: typer.Context,
    team: str,
    model: Annotated[
        str, typer.Option("--model", "-m", help="Only this model; default: every model of the team.")
    ] = "",
    days: Annotated[int, typer.Option("--days", min=1, max=180, help="Days until it expires.")] = 30,
    runnable: Annotated[
        bool,
        typer.Option("--runnable", help="Also allow formats that can execute code, such as pickle."),
    ] = False,
    reason: RequiredReason = "",
) -> None:
    """Add an exemption: versions that contain code may be served until it expires."""
    context = context_of(typer_context)
    until = (datetime.now(UTC) + timedelta(days=days)).isoformat()
    body = {
        "team": team,
        "covers_runnable": runnable,
        "reason": reason,
        "until": until,
    }
    document = context.client.create(at("code-exemptions"), body | ({"model": model} if model else {}))
    context.tell(document, f"Exemption {document['id']} expires at {document['until']}")


@app.command("end")
@confirmed("End exemption {exemption}?")
def end(
    typer_context: typer.Context,
    exemption: int,
    reason: RequiredReason = "",
) -> None:
    """End an exemption before it expires."""
    context = context_of(typer_context)
    body = {"reason": reason}
    document = context.client.post(at("code-exemptions", exemption, "end"), body)
    context.tell(document, f"Exemption {document['id']} has ended")
