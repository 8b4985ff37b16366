"""`slipway alerts`: what is wrong now, and what people do about it."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of
from slipway.cli.options import Number, Reason, RequiredReason
from slipway.client import at

app = typer.Typer(help="Alerts: what is wrong now, and who looks after it.", no_args_is_help=True)
Check = Annotated[str, typer.Argument(help="Name of the check, from `checks`.", metavar="CHECK")]
WholeGroup = Annotated[bool, typer.Option("--group", help="The number is a group's, from `groups`.")]
Hours = Annotated[float, typer.Option("--hours", min=0.1, max=2160, help="Length of the silence.")]
COLUMNS: Columns = {
    "ID": "id",
    "ALERT": "title",
    "SEVERITY": "severity",
    "STATE": "state",
    "LABELS": lambda row: ", ".join(f"{name}={value}" for name, value in row["labels"].items()),
    "TEAM": lambda row: row["team"] or "",
    "SINCE": "began_at",
}
GROUPS: Columns = {
    "ID": "id",
    "ALERT": "title",
    "OPEN": "number",
    "FIRING": "firing",
    "SEVERITY": "severity",
    "STATE": "state",
    "LABELS": lambda row: ", ".join(f"{name}={value}" for name, value in row["labels"].items()),
    "TEAM": lambda row: row["team"] or "",
    "SINCE": "began_at",
}
CHECKS: Columns = {
    "CHECK": "name",
    "TITLE": "title",
    "SEVERITY": "severity",
    "FIRES AFTER": lambda row: f"{row['lasts_seconds']:.0f} s",
    "OPEN": "open_alerts",
    "ON": lambda row: "yes" if row["is_on"] else f"no: {row['reason']}",
}
SILENCES: Columns = {
    "ID": "id",
    "LABELS": lambda row: ", ".join(f"{name}={value}" for name, value in row["labels"].items()),
    "TEAM": lambda row: row["team"] or "all",
    "ENDS": "ends_at",
    "REASON": "reason",
    "BY": "created_by",
}


@app.command("list")
def list_alerts(
    typer_context: typer.Context,
    state: Annotated[
        str, typer.Option("--state", help="open, firing, acknowledged, silenced or resolved.")
    ] = "open",
    service: Annotated[str, typer.Option("--service", help="About this service only.")] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="About this cluster only.")] = "",
    group: Annotated[int, typer.Option("--group", help="Of this group only, from `groups`.")] = 0,
) -> None:
    """List alerts, the newest first."""
    given = {"state": state, "service": service, "cluster": cluster, "group": str(group or "")}
    filters = {name: value for name, value in given.items() if value}
    context_of(typer_context).each(at("alerts"), COLUMNS, **filters)


@app.command("groups")
def list_groups(
    typer_context: typer.Context,
    service: Annotated[str, typer.Option("--service", help="About this service only.")] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="About this cluster only.")] = "",
) -> None:
    """List open alerts by group: a line for each check about a service, deployment or cluster."""
    given = {"service": service, "cluster": cluster}
    filters = {name: value for name, value in given.items() if value}
    context_of(typer_context).each(at("alert-groups"), GROUPS, **filters)


@app.command("show")
def show(typer_context: typer.Context, number: Number) -> None:
    """Show an alert."""
    context = context_of(typer_context)
    row = context.client.get(at("alerts", number))
    context.tell(row, f"{row['title']} is {row['state']}. {row['summary'] or row['note']}")


@app.command("ack")
def acknowledge(
    typer_context: typer.Context, number: Number, group: WholeGroup = False, reason: Reason = ""
) -> None:
    """Say that you look after an alert, or after all of a group."""
    context = context_of(typer_context)
    row = context.client.create(at(_noun(group), number, "acknowledge"), {"reason": reason})
    context.tell(row, f"{'Group' if group else 'Alert'} {row['id']} is {row['state']}.")


@app.command("silence")
def silence(
    typer_context: typer.Context,
    number: Number,
    group: WholeGroup = False,
    hours: Hours = 2.0,
    reason: RequiredReason = "",
) -> None:
    """Silence an alert, also when it ends and comes back meanwhile, or all of a group."""
    context = context_of(typer_context)
    row = context.client.create(at(_noun(group), number, "silence"), {"hours": hours, "reason": reason})
    until = row["ends_at"] if group else row["silenced_until"]
    context.tell(row, f"{'Group' if group else 'Alert'} {number} is silenced until {until}.")


@app.command("silence-all")
def silence_all(
    typer_context: typer.Context,
    label: Annotated[list[str], typer.Option("--label", help="NAME=VALUE that alerts have; repeatable.")],
    team: Annotated[str, typer.Option("--team", help="Alerts of this team; default: of all.")] = "",
    hours: Hours = 2.0,
    reason: RequiredReason = "",
) -> None:
    """Silence all alerts that have the labels."""
    context = context_of(typer_context)
    labels = dict(text.partition("=")[::2] for text in label)
    ends_at = datetime.now(UTC) + timedelta(hours=hours)
    body = {"labels": labels, "team": team or None, "ends_at": ends_at.isoformat(), "reason": reason}
    row = context.client.create(at("alert-silences"), body)
    context.tell(row, f"Silence {row['id']} ends at {row['ends_at']}.")


@app.command("silences")
def silences(typer_context: typer.Context) -> None:
    """List silences."""
    context_of(typer_context).each(at("alert-silences"), SILENCES)


@app.command("unsilence")
@confirmed("End silence {number}? What it covers fires again.")
def unsilence(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """End a silence; what it covers fires again."""
    context = context_of(typer_context)
    context.client.delete(at("alert-silences", number), reason=reason)
    context.progress.print(f"Silence {number} is ended.", markup=False)


@app.command("checks")
def list_checks(typer_context: typer.Context) -> None:
    """List the checks that raise alerts."""
    context = context_of(typer_context)
    context.rows(context.client.get(at("alert-checks"))["results"], CHECKS)


@app.command("turn-on")
def turn_on(typer_context: typer.Context, check: Check, reason: Reason = "") -> None:
    """Turn a check on for the whole installation."""
    _turn(typer_context, check, True, reason)


@app.command("turn-off")
@confirmed("Turn {check} off? Its open alerts end, and nobody hears of new ones.")
def turn_off(typer_context: typer.Context, check: Check, reason: Reason = "") -> None:
    """Turn a check off for the whole installation; say why."""
    _turn(typer_context, check, False, reason)


def _noun(is_group: bool) -> str:
    return "alert-groups" if is_group else "alerts"


def _turn(typer_context: typer.Context, check: str, is_on: bool, reason: str) -> None:
    context = context_of(typer_context)
    row = context.client.patch(at("alert-checks", check), {"is_on": is_on, "reason": reason})
    context.tell(row, f"{row['name']} is {'on' if row['is_on'] else 'off'}.")
