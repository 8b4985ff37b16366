"""`slipway workload`: training and batch jobs that hold cards of pools."""

import shlex
from typing import Annotated

import typer

from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.nouns.logs import Grep, Lines, print_logs
from slipway.cli.options import Number, Reason
from slipway.client import Document, at

app = typer.Typer(help="Training and batch jobs that hold cards of pools.", no_args_is_help=True)

ENDED = ("succeeded", "failed", "cancelled")


def _cards(row: Document) -> str:
    """`gpu-3: 0 1 2`"""
    held: dict[str, list[str]] = {}
    for one in row["cards_held"]:
        held.setdefault(one["machine"], []).append(str(one["card"]))
    return "; ".join(f"{machine}: {' '.join(cards)}" for machine, cards in held.items()) or "-"


COLUMNS: Columns = {
    "ID": "id",
    "NAME": "name",
    "POOL": "pool",
    "STATE": "state",
    "CARDS": "cards",
    "MACHINES": "machines",
    "PRIORITY": "priority",
    "HOLDS": _cards,
    "PROBLEM": "why",
}
LEDGER: Columns = {
    "MACHINE": "machine",
    "CARD": "card",
    "POOL": "pool",
    "HOLDER": "holder",
    "LENDER": lambda row: row["lender"] or "-",
    "SINCE": "since",
}


@app.command("submit")
def submit(
    typer_context: typer.Context,
    name: str,
    command: Annotated[list[str], typer.Argument(help="Program and arguments, after --.")],
    pool: Annotated[str, typer.Option("--pool", "-p", help="Pool of machines or cards.")],
    team: Annotated[str, typer.Option("--team", help="Owner.")],
    cards: Annotated[int, typer.Option("--cards", min=1, help="Cards of each of its machines.")] = 1,
    machines: Annotated[int, typer.Option("--machines", min=1, help="Machines that it needs at once.")] = 1,
    kind: Annotated[str, typer.Option("--kind", help="training or batch.")] = "training",
    image: Annotated[str, typer.Option("--image", help="Image by digest.")] = "",
    claim: Annotated[str, typer.Option("--claim", help="Volume claim for its checkpoints.")] = "",
    priority: Annotated[int, typer.Option("--priority", help="Higher ones come first.")] = 0,
    keep: Annotated[bool, typer.Option("--keep", help="It is never preempted.")] = False,
    no_checkpoints: Annotated[bool, typer.Option("--no-checkpoints", help="It writes none.")] = False,
    lossy: Annotated[
        bool, typer.Option("--may-lose-work", help="It may be stopped without a checkpoint.")
    ] = False,
    seconds: Annotated[int, typer.Option("--expected-seconds", min=0, help="Expected duration.")] = 0,
) -> None:
    """Queue a workload: it starts when its pool has the cards."""
    context = context_of(typer_context)
    row = context.client.create(
        at("capacity", "workloads"),
        {
            "name": name, "team": team, "pool": pool, "kind": kind, "command": command, "cards": cards,
            "machines": machines,
            "image": image, "claim": claim, "priority": priority, "is_preemptible": not keep,
            "writes_checkpoints": not no_checkpoints, "may_lose_work": lossy,
            "expected_seconds": seconds or None,
        },
    )  # fmt: skip
    context.tell(row, f"Workload {row['id']} is {row['state']}.")


@app.command("list")
def list_workloads(
    typer_context: typer.Context,
    pool: Annotated[str, typer.Option("--pool", "-p", help="Only of this pool.")] = "",
    state: Annotated[str, typer.Option("--state", help="queued, running, ...")] = "",
) -> None:
    """List workloads, the newest first."""
    given = {"pool": pool, "state": state}
    filters = {name: value for name, value in given.items() if value}
    context_of(typer_context).each(at("capacity", "workloads"), COLUMNS, **filters)


@app.command("show")
def show(typer_context: typer.Context, number: Number) -> None:
    """Show a workload."""
    context = context_of(typer_context)
    row = context.client.get(at("capacity", "workloads", number))
    context.show(row)
    names = ("name", "team", "pool", "kind", "state", "why", "held_by", "cards", "machines", "priority")
    later = ("runs", "started_at", "checkpoint_at", "resumed_at", "ended_at", "created_by", "description")
    told = {name.replace("_", " "): row[name] for name in (*names, *later)}
    context.details({**told, "holds": _cards(row), "command": shlex.join(row["command"])})


@app.command("logs")
def logs(
    typer_context: typer.Context,
    number: Number,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it has ended.")] = False,
    lines: Lines = 200,
    grep: Grep = "",
) -> None:
    """Print the end of the log of its latest run; with -f what it and later runs write from then on, too."""
    context = context_of(typer_context)
    address = at("capacity", "workloads", number, "log")
    told = print_logs(
        context,
        {str(number): address},
        lines=lines,
        grep=grep,
        goes_on=lambda document: follow and document["state"] not in ENDED,
    )
    if not told["log"]:
        nothing = "yet" if told["is_live"] else "that is kept"
        said = f"Run {told['run']} has written nothing {nothing}." if told["run"] else "It has not run yet."
        context.progress.print(said)


@app.command("ledger")
def ledger(typer_context: typer.Context) -> None:
    """List the cards that workloads and services hold."""
    context_of(typer_context).each(at("capacity", "allocations"), LEDGER)


@app.command("suspend")
def suspend(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Have it write a checkpoint and give its cards back; it waits until it is resumed."""
    _act(context_of(typer_context), number, "suspend", reason)


@app.command("resume")
def resume(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Let a suspended workload start again, from its checkpoint."""
    _act(context_of(typer_context), number, "resume", reason)


@app.command("cancel")
def cancel(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """End a workload for good, without a checkpoint."""
    _act(context_of(typer_context), number, "cancel", reason)


def _act(context: CliContext, number: int, deed: str, reason: str) -> None:
    row = context.client.create(at("capacity", "workloads", number, deed), {"reason": reason})
    context.tell(row, f"Workload {row['id']} is {row['state']}.")
