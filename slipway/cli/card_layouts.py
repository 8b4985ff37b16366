"""`slipway capacity cards`: who holds cards, and how MIG or MPS divides them."""

from typing import Annotated, Any

import typer

from slipway.cli.context import Columns, context_of
from slipway.cli.options import Number, Reason
from slipway.client import Document, at

Days = Annotated[int, typer.Option("--days", min=1, max=30, help="That measured needs are of.")]
PoolName = Annotated[str, typer.Option("--pool", "-p", help="Only of this pool.")]


CARDS: Columns = {
    "POOL": "pool",
    "MACHINE": "machine",
    "CARD": "card",
    "MODEL": lambda row: row["model"] or "-",
    "HOLDER": lambda row: row["closed"] or row["holder"] or "-",
    "INSTANCES": lambda row: _instances(row) or "whole",
    "DIVIDED BY": lambda row: row["way"] or "nobody",
    "ROOM": lambda row: ", ".join(f"{count}x{name}" for name, count in row["room"].items() if count) or "-",
    "SIMULATED": lambda row: "yes" if row["is_simulated"] else "no",
}


LAYOUTS: Columns = {
    "ID": "id",
    "MACHINE": "machine",
    "CARD": "card",
    "STATE": "state",
    "INSTANCES": lambda row: _instances(row) or "whole",
    "PROBLEM": "problem",
}


def _measured(row: Document, name: str, form: str) -> str:
    return "not measured" if row[name] is None else format(row[name], form)


NEEDS: Columns = {
    "POOL": "pool",
    "SERVICE": "service",
    "P95 MIB": lambda row: _measured(row, "memory_p95_mib", "d"),
    "PEAK MIB": lambda row: _measured(row, "memory_peak_mib", "d"),
    "P95 BUSY": lambda row: _measured(row, "busy_p95", ".0%"),
    "SHARE OF CARD": lambda row: _measured(row, "share", ".0%"),
    "MINUTES": "minutes",
    "MEASURED BY": "measured_by",
}


def _instances(row: Document) -> str:
    return ", ".join(f"{_size(one)} {one['name']}".strip() for one in row["instances"])


def _size(one: Document) -> str:
    """Return the profile of an instance, or `25%/9000MiB` of a share."""
    return f"{one['threads']}%/{one['memory_mib']}MiB" if one["profile"] == "mps" else str(one["profile"])


def cards(typer_context: typer.Context, pool: PoolName = "") -> None:
    """List the cards of pools: who holds each, and how it is divided."""
    context = context_of(typer_context)
    rows = [
        {"pool": one["name"], **card}
        for one in context.client.each(at("capacity", "pools"))
        if one["granularity"] != "worker" and pool in ("", one["name"])
        for card in context.client.get(at("capacity", "pools", one["id"], "cards"))["cards"]
    ]
    context.rows(rows, CARDS)


def set_layout(
    typer_context: typer.Context,
    number: Annotated[int, typer.Argument(metavar="POOL_ID", help="Pool of machines or cards.")],
    machine: Annotated[str, typer.Argument(help="Name of the machine.")],
    card: Annotated[
        int, typer.Option("--card", help="Of a declared machine; -1: all, which a cluster divides alike.")
    ] = -1,
    needs: Annotated[
        list[str] | None,
        typer.Option(
            "--need",
            help="NAME:MIB:SHARE of a model, or a service that was measured; none: the whole card.",
        ),
    ] = None,
    sharing: Annotated[
        str, typer.Option("--by", help="mig (instances) or mps (shares, of one team alone).")
    ] = "mig",
    drain: Annotated[bool, typer.Option("--drain", help="Have whoever holds it leave.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the layout, change nothing.")] = False,
    days: Days = 7,
    reason: Reason = "",
) -> None:
    """Divide a card by MIG or MPS for the models that are to share it, or make it whole again."""
    context = context_of(typer_context)
    wish: dict[str, Any] = {"machine": machine, "card": None if card < 0 else card}
    wish |= {"needs": [_need(text) for text in needs or ()]}
    wish |= {"sharing": sharing, "drain": drain, "dry_run": dry_run, "days": days, "reason": reason}
    row = context.client.create(at("capacity", "pools", number, "layout"), wish)
    said = _instances(row) or "whole"
    context.tell(row, said if dry_run else f"Layout {row['id']} is {row['state']}: {said}")


def _need(text: str) -> dict[str, Any]:
    if ":" not in text:
        return {"name": text}
    try:
        name, memory, share = text.rsplit(":", 2)
        return {"name": name, "memory_mib": int(memory), "share": float(share)}
    except ValueError:
        raise typer.BadParameter(
            f"{text} is no need: NAME:MIB:SHARE, such as bert:9000:0.2, or a service."
        ) from None


def needs(typer_context: typer.Context, pool: PoolName = "", days: Days = 7) -> None:
    """List what was measured of services with GPUs: memory and Busy of a worker."""
    context = context_of(typer_context)
    rows = [
        {"pool": one["name"], **need}
        for one in context.client.each(at("capacity", "pools"))
        if one["granularity"] != "worker" and pool in ("", one["name"])
        for need in context.client.get(at("capacity", "pools", one["id"], "needs"), days=days)["needs"]
    ]
    context.rows(rows, NEEDS)


def layouts(typer_context: typer.Context) -> None:
    """List changes of cards, the latest first."""
    context_of(typer_context).each(at("capacity", "layouts"), LAYOUTS)


def undo_layout(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Give a card the layout that it had before."""
    context = context_of(typer_context)
    row = context.client.create(at("capacity", "layouts", number, "undo"), {"reason": reason})
    context.tell(row, f"Layout {row['id']} is {row['state']}: {_instances(row) or 'whole'}")
