"""`slipway capacity`: pools, and the plans that move workers between their services."""

from typing import Annotated, Any

import typer

from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.options import Number, Reason
from slipway.client import Document, at

app = typer.Typer(help="Pools of workers, and plans that move them.", no_args_is_help=True)
PoolName = Annotated[str, typer.Option("--pool", "-p", help="Only of this pool.")]


def _moves(plan: Document) -> str:
    return ", ".join(f"{c['service']} {c['before']} -> {c['after']}" for c in plan["changes"])


LOOKS: Columns = {
    "SERVICE": "service",
    "WORKERS": lambda look: f"{look['ready']}/{look['have']}",
    "BUSY": lambda look: "-" if look["busy"] is None else f"{look['busy']:.0%}",
    "LOAD": lambda look: f"{look['load']:.1f}",
    "NEED": lambda look: f"{look['need']:.1f}",
    "WANTED": "wanted",
    "GRANTED": "granted",
    "WHY": lambda look: look["held"] or look["why"],
}
PLANS: Columns = {
    "ID": "id",
    "STATE": "state",
    "WORKERS": _moves,
    "DECIDED BY": "decided_by",
    "CREATED": "created_at",
}


@app.command("show")
def show(typer_context: typer.Context) -> None:
    """Show the services of all pools with their load, and what each is granted."""
    columns: Columns = {"POOL": "pool", "MODE": "mode", **LOOKS, "LEAST": "guarantee", "MOST": "limit"}
    context = context_of(typer_context)
    rows = [
        {"pool": pool["name"], "mode": pool["mode"], **member, **_look(member)}
        for pool in context.client.each(at("capacity", "pools"))
        for member in pool["members"]
    ]
    context.rows(rows, columns)


def _look(member: Document) -> dict[str, Any]:
    unseen = {"ready": 0, "have": 0, "busy": None, "load": 0.0, "need": 0.0, "wanted": 0, "granted": 0}
    return {**unseen, "held": "", "why": "", **(member["look"] or {}), "service": member["service"]}


@app.command("plan")
def plan(typer_context: typer.Context, pool: PoolName = "") -> None:
    """List plans, the latest first."""
    context_of(typer_context).each(at("capacity", "plans"), PLANS, **({"pool": pool} if pool else {}))


@app.command("explain")
def explain(typer_context: typer.Context, number: Number) -> None:
    """Show what was seen of each service when a plan was made, and what follows from it."""
    context = context_of(typer_context)
    row = context.client.get(at("capacity", "plans", number))
    context.tabulate(row["looks"], LOOKS)
    context.tell(row, f"Plan {row['id']} is {row['state']}: {_moves(row)}")


@app.command("apply")
def apply(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Begin a proposed plan."""
    _decide(context_of(typer_context), number, "apply", reason)


@app.command("reject")
def reject(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Reject a proposed plan."""
    _decide(context_of(typer_context), number, "reject", reason)


@app.command("undo")
def undo(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Give every service what it had before a plan."""
    _decide(context_of(typer_context), number, "undo", reason)


def _decide(context: CliContext, number: int, deed: str, reason: str) -> None:
    row = context.client.create(at("capacity", "plans", number, deed), {"reason": reason})
    context.tell(row, f"Plan {row['id']} is {row['state']}: {_moves(row)}")


@app.command("pause")
def pause(typer_context: typer.Context, reason: Reason = "") -> None:
    """Throw the kill switch: no plan begins or goes on, traffic stays as it is."""
    _switch(context_of(typer_context), True, reason)


@app.command("resume")
def resume(typer_context: typer.Context, reason: Reason = "") -> None:
    """Let plans begin again."""
    _switch(context_of(typer_context), False, reason)


def _switch(context: CliContext, is_on: bool, reason: str) -> None:
    row = context.client.create(at("capacity", "stop"), {"is_on": is_on, "reason": reason})
    context.tell(row, "No plan goes on." if row["is_on"] else "Plans may begin again.")
