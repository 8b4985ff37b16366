"""`slipway quota`: storage quotas of teams."""

import re
from decimal import Decimal
from typing import Annotated

import typer

from slipway.cli.context import CliContext, Columns, context_of, size
from slipway.cli.options import RequiredReason
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Storage quotas of teams; set by administrators.", no_args_is_help=True)

_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,3})?) ?(k|M|G|T|P)?B?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}


COLUMNS: Columns = {
    "TEAM": "team",
    "USED": lambda row: size(row["held_bytes"]),
    "RESERVED": lambda row: size(row["reserved_bytes"]),
    "QUOTA": lambda row: size(row["limit_bytes"]),
}


@app.command("list")
def list_teams(typer_context: typer.Context) -> None:
    """List the storage usage and quota of every team."""
    context = context_of(typer_context)
    context.each(at("store", "teams"), COLUMNS)


@app.command("show")
def show(typer_context: typer.Context, team: str) -> None:
    """Show the storage usage and quota of a team."""
    context = context_of(typer_context)
    _tell(context, context.client.get(at("teams", team, "storage")))


@app.command("set")
def set_limit(
    typer_context: typer.Context,
    team: str,
    limit: Annotated[str, typer.Argument(help="Bytes, or with a unit, such as 500GB or 2TB.")],
    reason: RequiredReason = "",
) -> None:
    """Set the quota of a team: uploads and imports beyond it are refused; existing files are kept."""
    _put(typer_context, team, _bytes(limit), reason)


@app.command("unset")
def unset(typer_context: typer.Context, team: str, reason: RequiredReason = "") -> None:
    """Remove the quota of a team."""
    _put(typer_context, team, None, reason)


def _put(typer_context: typer.Context, team: str, limit_bytes: int | None, reason: str) -> None:
    context = context_of(typer_context)
    body = {"limit_bytes": limit_bytes, "reason": reason}
    _tell(context, context.client.put(at("teams", team, "storage"), body))


def _bytes(text: str) -> int:
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise CommandFailed(f"'{text}' is not a size: use one such as 500GB or 2TB.", Exit.USAGE)
    return int(Decimal(found[1]) * _UNITS[(found[2] or "").upper()])


def _tell(context: CliContext, storage: Document) -> None:
    context.show(storage)
    limit = "; no quota" if storage["limit_bytes"] is None else f" of {size(storage['limit_bytes'])}"
    coming = f", {size(storage['reserved_bytes'])} reserved for uploads" if storage["reserved_bytes"] else ""
    context.say(f"{storage['team']} uses {size(storage['held_bytes'])}{limit}{coming}")
    if storage["changed_by"]:
        context.say(f"Set by {storage['changed_by']} at {storage['changed_at']}: {storage['reason']}")
