"""`slipway usage`: what clients used, and budgets for it."""

import csv
import sys
from typing import Annotated

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of
from slipway.cli.options import OnlyTeam, Reason
from slipway.client import at

app = typer.Typer(help="Requests, tokens, GPU hours and their cost, and budgets.", no_args_is_help=True)
FIGURES: Columns = {
    "REQUESTS": "requests",
    "ERRORS": "errors",
    "REFUSED": "refused",
    "PROMPT TOKENS": "prompt_tokens",
    "ANSWER TOKENS": "completion_tokens",
    "GPU HOURS": "gpu_hours",
    "COST": "cost",
}
BUDGETS: Columns = {
    "ID": "id",
    "NAME": "name",
    "TEAM": "team",
    "SERVICE": lambda row: row["service"] or "all",
    "MEASURE": "measure",
    "USED": "used",
    "AMOUNT": "amount",
    "STATE": "state",
}
GROUPS = ("day", "team", "service", "version", "key")


@app.command("report")
def report(
    typer_context: typer.Context,
    by: Annotated[
        str, typer.Option("--by", help="Groups, with commas: day, team, service, version, key.")
    ] = "service",
    since: Annotated[str, typer.Option("--since", help="First day, such as 2026-11-01.")] = "",
    until: Annotated[str, typer.Option("--until", help="Last day.")] = "",
    team: OnlyTeam = "",
    service: Annotated[str, typer.Option("--service", help="Only this service.")] = "",
    key: Annotated[str, typer.Option("--key", help="Only this client's key, by name.")] = "",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print it as CSV.")] = False,
) -> None:
    """Sums of the last 30 days, or of those that are named."""
    context = context_of(typer_context)
    given = {"by": by, "since": since, "until": until, "team": team, "service": service, "key": key}
    found = context.client.get(at("usage"), **{name: value for name, value in given.items() if value})
    rows = found["rows"]
    groups = [name for name in GROUPS if rows and name in rows[0]]
    if as_csv:
        writer = csv.DictWriter(sys.stdout, [*groups, *map(str, FIGURES.values())])
        writer.writeheader()
        writer.writerows(rows)
        return
    context.rows(rows, {**{name.upper(): name for name in groups}, **FIGURES})


@app.command("budgets")
def list_budgets(typer_context: typer.Context, team: OnlyTeam = "") -> None:
    """List budgets of the present month."""
    context_of(typer_context).each(at("budgets"), BUDGETS, **({"team": team} if team else {}))


@app.command("set-budget")
def set_budget(
    typer_context: typer.Context,
    name: str,
    measure: Annotated[str, typer.Option("--measure", help="requests, tokens, gpu_hours or cost.")],
    amount: Annotated[float, typer.Option("--amount", help="Of a calendar month.")],
    team: Annotated[str, typer.Option("--team")] = "default",
    service: Annotated[str, typer.Option("--service", help="Default: all of the team.")] = "",
    warn_percent: Annotated[int, typer.Option("--warn-percent", min=1, max=100)] = 80,
) -> None:
    """Set a budget: an alert fires when it is nearly spent, and when it is. It stops nothing."""
    context = context_of(typer_context)
    body = {
        "name": name,
        "measure": measure,
        "amount": amount,
        "team": team,
        "service": service,
        "warn_percent": warn_percent,
    }
    row = context.client.create(at("budgets"), body)
    context.tell(
        row, f"Budget {row['name']}: {row['used']:.12g} of {row['amount']:.12g} {row['measure']} used."
    )


@app.command("delete-budget")
@confirmed("Delete budget {budget_id}?")
def delete_budget(typer_context: typer.Context, budget_id: int, reason: Reason = "") -> None:
    """Delete a budget."""
    context = context_of(typer_context)
    context.client.delete(at("budgets", str(budget_id)), reason=reason)
    context.say(f"Budget {budget_id} is deleted.")
