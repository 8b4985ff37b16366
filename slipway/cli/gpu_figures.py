"""`slipway gpu stats` and `prices`: how fast machines are healed, and what the lost time costs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli.context import Columns, context_of
from slipway.cli.options import RequiredReason
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

prices = typer.Typer(help="Prices of GPU hours.", no_args_is_help=True)
STATISTICS = at("gpu-health", "statistics")
PRICES = at("gpu-health", "prices")


class Grouping(StrEnum):
    FAULT = "fault"
    MODEL = "model"
    MACHINE = "machine"


def _mean(name: str) -> Any:
    return lambda row: span(row[name]["mean"])


FIGURES: Columns = {
    "INCIDENTS": "incidents",
    "MTTD": _mean("time_to_detect"),
    "TO THE CORDON": _mean("time_to_quarantine"),
    "MTTR": _mean("time_to_repair"),
    "LOST GPU HOURS": lambda row: f"{row['lost_gpu_hours']:,.1f}",
    "COST": "cost",
}
GROUPS: dict[Grouping, tuple[str, Columns]] = {
    Grouping.FAULT: ("faults", {"FAULT": "title"}),
    Grouping.MODEL: (
        "gpu_models",
        {
            "GPU MODEL": lambda row: row["gpu_model"] or "not known",
            "GPUS": "gpus",
            "AVAILABILITY": lambda row: share(row["availability"]),
        },
    ),
    Grouping.MACHINE: (
        "machines",
        {
            "MACHINE": lambda row: f"{row['cluster']}/{row['node']}",
            "LEMON": lambda row: "lemon" if row["is_lemon"] else "",
        },
    ),
}


def show_statistics(
    typer_context: typer.Context,
    length: Annotated[str, typer.Option("--span", help="How far back: 1d, 7d, 30d, 90d or 365d.")] = "30d",
    since: Annotated[str, typer.Option("--since", help="Start, such as 2026-11-20T08:30:00Z.")] = "",
    until: Annotated[str, typer.Option("--until", help="End.")] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="Only of this cluster.")] = "",
    gpu_model: Annotated[str, typer.Option("--gpu-model", help="Only of GPUs whose name holds this.")] = "",
    fault: Annotated[str, typer.Option("--fault", help="Only of this fault, such as xid.79.")] = "",
    by: Annotated[Grouping, typer.Option("--by", help="Rows of the table.")] = Grouping.FAULT,
    to_csv: Annotated[
        Path | None, typer.Option("--csv", help="Write the incidents that were counted to this file.")
    ] = None,
) -> None:
    """Show how fast faults are found and machines come back, and what the lost time costs."""
    context = context_of(typer_context)
    asked = {
        "span": length,
        "since": since,
        "until": until,
        "cluster": cluster,
        "gpu_model": gpu_model,
        "fault": fault,
    }
    found = context.client.get(STATISTICS, **asked)
    context.show(found)
    total = found["total"]
    context.details(
        {
            "time": f"{found['since']} to {found['until']}",
            "incidents": f"{total['incidents']} on {total['machines']} machines, {total['open']} open",
            "MTTD": _in_words(total["time_to_detect"]),
            "to the cordon": _in_words(total["time_to_quarantine"]),
            "MTTR": _in_words(total["time_to_repair"]),
            "availability": share(found["availability"]),
            "lost GPU hours": f"{total['lost_gpu_hours']:,.1f}",
            "cost": _cost(found),
        }
    )
    key, columns = GROUPS[by]
    context.tabulate(found[key], {**columns, **FIGURES})
    if to_csv is not None:
        try:
            to_csv.write_text(context.client.text(STATISTICS.below("export"), **asked), newline="")
        except OSError as error:
            raise CommandFailed(f"{to_csv}: {error.strerror}.", Exit.FAILED) from None
        context.say(f"Written to {to_csv}.")


@prices.command("show")
def show_prices(typer_context: typer.Context) -> None:
    """Show prices of GPU hours by model and cluster."""
    context = context_of(typer_context)
    found = context.client.get(PRICES)
    context.show(found)
    context.tabulate(
        found["prices"],
        {
            "GPU MODEL": lambda row: row["gpu_model"] or "every model",
            "CLUSTER": lambda row: row["cluster"] or "every cluster",
            f"{found['currency']} PER GPU HOUR": "per_hour",
        },
    )


@prices.command("set")
def set_price(
    typer_context: typer.Context,
    per_hour: Annotated[str, typer.Argument(metavar="PRICE", help="Per GPU hour, such as 2.49; or none.")],
    gpu_model: Annotated[str, typer.Option("--gpu-model", help="Part of its name; else every model.")] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="Name of the cluster; else every cluster.")] = "",
    currency: Annotated[str, typer.Option("--currency", help="Three letters; of all prices.")] = "",
    reason: RequiredReason = "",
) -> None:
    """Set the price of a GPU model, of a cluster or of all; `none` takes it away."""
    context = context_of(typer_context)
    found = context.client.get(PRICES)
    kept = [one for one in found["prices"] if (one["gpu_model"], one["cluster"]) != (gpu_model, cluster)]
    if per_hour != "none":
        kept.append({"gpu_model": gpu_model, "cluster": cluster, "per_hour": per_hour})
    elif len(kept) == len(found["prices"]):
        raise CommandFailed("There is no such price.", Exit.USAGE)
    body = {
        "currency": currency or found["currency"],
        "prices": kept,
        "revision": found["revision"],
        "reason": reason,
    }
    changed = context.client.post(PRICES.below("change"), body)
    context.tell(changed, "The prices are set.")


def span(seconds: float | None) -> str:
    """`850 ms`, `12.3 s`, `4.2 min`, `3.2 h`; empty: nobody knows."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s"


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.3%}"


def _in_words(times: Document) -> str:
    if times["mean"] is None:
        return "none"
    return f"{span(times['mean'])} (P90 {span(times['p90'])}, of {times['count']})"


def _cost(found: Document) -> str:
    total = found["total"]
    rest = total["unpriced_gpu_hours"]
    without = f", and {rest:,.1f} GPU hours without a price" if rest else ""
    return f"{found['currency']} {total['cost']}{without}"
