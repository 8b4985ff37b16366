"""`slipway service pod-patch`: changes of a service's pods, proposed by one and approved by another."""

from pathlib import Path
from typing import Annotated

import typer

from slipway.cli.context import Columns, context_of
from slipway.cli.options import Number, RequiredReason
from slipway.cli.pods import read_json
from slipway.client import at

app = typer.Typer(help="Reviewed patches of a service's pod template.", no_args_is_help=True)
COLUMNS: Columns = {
    "ID": "id",
    "STATE": "state",
    "PROPOSED BY": "proposer",
    "DECIDED BY": "decider",
    "REASON": "reason",
    "PATCH": "patch",
}


@app.command("list")
def list_patches(typer_context: typer.Context, service: str) -> None:
    """List patches, newest first."""
    context = context_of(typer_context)
    context.rows(context.client.get(at("services", service, "pod-patches"))["results"], COLUMNS)


@app.command("propose")
def propose(
    typer_context: typer.Context,
    service: str,
    file: Annotated[Path, typer.Argument(help="JSON: metadata and spec of a pod; {} takes the patch away.")],
    reason: RequiredReason = "",
) -> None:
    """Propose a patch; the next release deploys it once somebody else has approved it."""
    context = context_of(typer_context)
    body = {"patch": read_json(file, "FILE"), "reason": reason}
    document = context.client.post(at("services", service, "pod-patches"), body)
    context.tell(document, f"patch {document['id']} of {service} waits for an approval")


@app.command("approve")
def approve(typer_context: typer.Context, service: str, number: Number, reason: RequiredReason = "") -> None:
    """Approve a proposed patch."""
    _decide(typer_context, service, number, "approve", reason, "is in effect from the next release on")


@app.command("reject")
def reject(typer_context: typer.Context, service: str, number: Number, reason: RequiredReason = "") -> None:
    """Reject a proposed patch."""
    _decide(typer_context, service, number, "reject", reason, "is rejected")


@app.command("withdraw")
def withdraw(typer_context: typer.Context, service: str, number: Number, reason: RequiredReason = "") -> None:
    """Withdraw a proposed patch."""
    _decide(typer_context, service, number, "withdraw", reason, "is withdrawn")


def _decide(
    typer_context: typer.Context, service: str, number: int, decision: str, reason: str, said: str
) -> None:
    context = context_of(typer_context)
    place = at("services", service, "pod-patches", str(number), decision)
    context.tell(context.client.post(place, {"reason": reason}), f"patch {number} of {service} {said}")
