"""`slipway capacity`: pools, and the plans that move workers between their services."""

from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli import card_layouts, scaling_policies
from slipway.cli.card_layouts import PoolName
from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.options import Number, Reason, RequiredReason
from slipway.cli.scaling_policies import ServiceName
from slipway.client import Document, at

app = typer.Typer(help="Pools of workers, and plans that move them.", no_args_is_help=True)
app.command("cards")(card_layouts.cards)
app.command("needs")(card_layouts.needs)
app.command("set-layout")(card_layouts.set_layout)
app.command("layouts")(card_layouts.layouts)
app.command("undo-layout")(card_layouts.undo_layout)
app.command("replay")(scaling_policies.replay)
app.command("switch-times")(scaling_policies.switch_times)


def _moves(plan: Document) -> str:
    return ", ".join(
        f"{c.get('service') or c.get('name')} {_place(c['before'])} -> {_place(c['after'])}"
        for c in plan["changes"]
    )


def _place(place: Any) -> str:
    """Workers, or a machine with its cards; none: the queue."""
    if isinstance(place, dict):
        return f"{place['machine']}:{','.join(map(str, place['cards']))}"
    return "queue" if place is None else str(place)


LOOKS: Columns = {
    "SERVICE": "service",
    "WORKERS": lambda look: f"{look['ready']}/{look['have']}",
    "BUSY": lambda look: "-" if look["busy"] is None else f"{look['busy']:.0%}",
    "QUEUE": lambda look: "-" if look.get("queue") is None else f"{look['queue']:.0f}",
    "LOAD": lambda look: f"{look['load']:.1f}",
    "NEED": lambda look: f"{look['need']:.1f}",
    "WANTED": "wanted",
    "GRANTED": "granted",
    "WHY": lambda look: look["held"] or look["why"],
}
GROUPS_AT = at("capacity", "groups")
NO_LOOK = {"online": 0, "offline": 0, "need": 0.0, "jobs": None, "latency_ms": None, "why": "", "held": ""}
GROUPS: Columns = {
    "SERVICE": "service",
    "ONLINE": "online",
    "OFFLINE": "offline",
    "NEED": lambda row: f"{row['need']:.1f}",
    "JOBS": lambda row: "-" if row["jobs"] is None else str(row["jobs"]),
    "TTFT P95": lambda row: "-" if row["latency_ms"] is None else f"{row['latency_ms']:.0f} ms",
    "WHY": lambda row: row["held"] or row["why"],
}
NO_QUOTA = {"queue": "", "cards": 0, "used": 0, "borrowed": 0, "admitted": 0, "pending": 0, "workloads": []}
QUOTAS: Columns = {
    "POOL": "pool",
    "QUEUE": "queue",
    "CARDS": "cards",
    "USED": "used",
    "BORROWED": "borrowed",
    "ADMITTED": "admitted",
    "PENDING": "pending",
    "WHY": lambda row: (
        row["problem"] or "; ".join(f"{one['name']}: {one['why']}" for one in row["workloads"])
    ),
}
PLANS: Columns = {
    "ID": "id",
    "KIND": "kind",
    "STATE": "state",
    "CHANGES": _moves,
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


@app.command("quotas")
def quotas(typer_context: typer.Context) -> None:
    """List pools whose workloads Kueue admits: cards in use, and what waits why."""
    context = context_of(typer_context)
    rows = [
        {"pool": pool["name"], "problem": pool["problem"], **(pool["quota"] or NO_QUOTA)}
        for pool in context.client.each(at("capacity", "pools"))
        if pool["admission"] == "kueue"
    ]
    context.rows(rows, QUOTAS)


@app.command("groups")
def groups(typer_context: typer.Context) -> None:
    """List services whose workers change between requests and jobs."""
    rows = [{**row, **(row["look"] or NO_LOOK)} for row in context_of(typer_context).client.each(GROUPS_AT)]
    context_of(typer_context).rows(rows, GROUPS)


@app.command("set-groups")
def set_groups(
    typer_context: typer.Context,
    service: ServiceName,
    least_online: Annotated[int, typer.Option(help="Workers that always get requests.")] = 1,
    wait_seconds: Annotated[int, typer.Option(help="For a job in hand, before it is requeued.")] = 5,
    latency_bound: Annotated[
        int, typer.Option(help="TTFT P95 in ms above which all go online at once; 0: no bound.")
    ] = 0,
) -> None:
    """Have workers that requests do not need work off jobs, without a restart."""
    context = context_of(typer_context)
    body = {
        "least_online": least_online,
        "wait_seconds": wait_seconds,
        "latency_bound_ms": latency_bound or None,
    }
    row = context.client.put(at("capacity", "groups", service), body)
    context.tell(row, f"{service} has groups: at least {row['least_online']} online.")


@app.command("remove-groups")
@confirmed("Have all workers of {service} get requests again?")
def remove_groups(typer_context: typer.Context, service: ServiceName, reason: Reason = "") -> None:
    """Have all workers of a service get requests again."""
    context = context_of(typer_context)
    context.client.delete(at("capacity", "groups", service), reason=reason)
    context.tell({"service": service}, f"{service} has no groups any more.")


QUEUES_AT = at("capacity", "queues")
EMPTY: dict[str, Any] = {"waiting": 0.0, "in_hand": 0.0, "rate": 0.0, "workers": 0, "late_seconds": 0.0}
QUEUES: Columns = {
    "SERVICE": "service",
    "KIND": "kind",
    "WAITING": lambda row: f"{row['waiting']:.0f}",
    "IN HAND": lambda row: f"{row['in_hand']:.0f}",
    "ARRIVING": lambda row: f"{row['rate']:.1f}",
    "WORKERS": "workers",
    "DEADLINE": lambda row: row["deadline"] or "-",
    "LATE": lambda row: f"{row['late_seconds']:.0f} s" if row["late_seconds"] else "-",
    "WHY": lambda row: row["problem"] or row["why"],
}


@app.command("queues")
def queues(typer_context: typer.Context) -> None:
    """List the queues that services work off, and the workers that these need."""
    context = context_of(typer_context)
    unseen = {**EMPTY, "why": "", "problem": ""}
    context.rows([{**row, **(row["look"] or unseen)} for row in context.client.each(QUEUES_AT)], QUEUES)


@app.command("set-queue")
def set_queue(
    typer_context: typer.Context,
    service: ServiceName,
    kind: Annotated[
        str,
        typer.Option("--kind", help="jobs (its own), redis_list, redis_stream, prometheus, sqs or kafka."),
    ] = "jobs",
    url: Annotated[str, typer.Option("--url", help="Address of a queue outside of Slipway.")] = "",
    subject: Annotated[
        str,
        typer.Option(
            "--subject", help="Key of a list or stream, query of a Prometheus, region of SQS, topic of Kafka."
        ),
    ] = "",
    group: Annotated[str, typer.Option("--consumer-group", help="Of a stream or topic.")] = "",
    secret_file: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="File with the password, token, KEY_ID:KEY or MECHANISM:USER:PASSWORD.",
        ),
    ] = None,
    item_seconds: Annotated[
        float, typer.Option(help="For which an item keeps a worker; 0: measured, where that is possible.")
    ] = 0,
    deadline: Annotated[
        str, typer.Option(help="By which what waits is to be done: 2026-12-01T06:00:00Z.")
    ] = "",
) -> None:
    """Count the workers of a service by a queue; none without work, where it is guaranteed none."""
    context = context_of(typer_context)
    body: dict[str, Any] = {"kind": kind, "url": url, "subject": subject, "consumer_group": group}
    body |= {"item_seconds": item_seconds or None, "deadline": deadline or None}
    if secret_file is not None:
        body["secret"] = secret_file.read_text().strip()
    row = context.client.put(at("capacity", "queues", service), body)
    context.tell(row, f"{service} works off its queue: {row['kind']}.")


@app.command("remove-queue")
@confirmed("Count the workers of {service} by requests alone?")
def remove_queue(typer_context: typer.Context, service: ServiceName, reason: Reason = "") -> None:
    """Count the workers of a service by requests alone again."""
    context = context_of(typer_context)
    context.client.delete(at("capacity", "queues", service), reason=reason)
    context.tell({"service": service}, f"{service} has no queue any more.")


@app.command("plan")
def plan(typer_context: typer.Context, pool: PoolName = "") -> None:
    """List plans, the latest first."""
    context_of(typer_context).each(at("capacity", "plans"), PLANS, **({"pool": pool} if pool else {}))


FRAGMENTS: Columns = {
    "POOL": "pool",
    "RACK": lambda row: row["rack"] or "-",
    "FREE": lambda row: f"{row['free']}/{row['cards']}",
    "1 CARD": lambda row: row["startable"]["1"],
    "2 CARDS": lambda row: row["startable"]["2"],
    "4 CARDS": lambda row: row["startable"]["4"],
    "8 CARDS": lambda row: row["startable"]["8"],
    "16 CARDS": lambda row: row["startable"]["16"],
}


@app.command("fragments")
def fragments(typer_context: typer.Context, pool: PoolName = "") -> None:
    """Show how many jobs of 1 to 16 cards could start now, by pool and rack."""
    context = context_of(typer_context)
    rows = [
        {"pool": one["name"], **rack}
        for one in context.client.each(at("capacity", "pools"))
        if one["granularity"] != "worker" and pool in ("", one["name"])
        for rack in context.client.get(at("capacity", "pools", one["id"], "fragments"))["racks"]
    ]
    context.rows(rows, FRAGMENTS)


@app.command("defragment")
def defragment(
    typer_context: typer.Context,
    number: Annotated[int, typer.Argument(metavar="POOL_ID", help="Pool of machines or cards.")],
    cards: Annotated[int, typer.Option("--cards", min=1, help="Cards of the machines to free.")] = 8,
    machines: Annotated[int, typer.Option("--machines", min=1, help="Machines to free.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the moves, propose nothing.")] = False,
    reason: Reason = "",
) -> None:
    """Propose moves that free machines, with what they cost and gain."""
    context = context_of(typer_context)
    wish = {"cards": cards, "machines": machines, "dry_run": dry_run, "reason": reason}
    row = context.client.create(at("capacity", "pools", number, "defragment"), wish)
    gain = row["gain"]
    said = f"{_moves(row) or 'No moves'}. Cost: {gain['cost']} card-seconds."
    context.tell(row, said if dry_run else f"Plan {row['id']} is {row['state']}: {said}")


@app.command("explain")
def explain(typer_context: typer.Context, number: Number) -> None:
    """Show what was seen of each service when a plan was made, and what follows from it."""
    context = context_of(typer_context)
    row = context.client.get(at("capacity", "plans", number))
    bound: Columns = {"BOUND": lambda look: look["bound"] or "-"}
    if row["looks"]:  # a plan of workloads has none
        context.tabulate(row["looks"], {**LOOKS, **bound})
    cost = "" if row["cost"] is None else f" Cost: {row['cost']:.0f} {_cost_unit(row)}."
    altered = "" if row["is_as_made"] else " It was altered after it was made: it does not match its digest."
    context.tell(
        row, f"Plan {row['id']} is {row['state']}: {_moves(row)}.{cost} Digest {row['digest'][:12]}.{altered}"
    )


def _cost_unit(plan: Document) -> str:
    return "worker-seconds" if plan["kind"] in ("workers", "machines") else "card-seconds"


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


@app.command("take-back")
def take_back(
    typer_context: typer.Context,
    deployment: Annotated[str, typer.Argument(metavar="DEPLOYMENT", help="Deployment of the service.")],
    reason: RequiredReason = "",
) -> None:
    """Set the workers again to what Slipway wishes, where something else has set them."""
    context = context_of(typer_context)
    row = context.client.create(at("deployments", deployment, "take-back"), {"reason": reason})
    context.tell(row, f"{row['name']} will have {row['replicas']} workers again.")


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
