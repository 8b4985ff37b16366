"""`slipway gpu finding`: faults that were seen, and how each was judged."""

from typing import Annotated

import typer

from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.options import Number, RequiredReason
from slipway.client import Document, at

app = typer.Typer(help="Findings: faults of GPUs and machines, and what the rules say.", no_args_is_help=True)

FINDINGS = at("gpu-health", "findings")
COLUMNS: Columns = {
    "FINDING": "id",
    "NODE": "node",
    "GPU": lambda row: row["device"] or "whole machine",
    "FAULT": "title",
    "SEVERITY": "severity",
    "STATE": "state",
    "LAST": "last_at",
    "WOULD": "outcome",
    "SEEN": "count",
}


@app.command("list")
def list_findings(
    typer_context: typer.Context,
    node: Annotated[str, typer.Option("--node", help="Only of this machine.")] = "",
    state: Annotated[str, typer.Option("--state", help="Only in this state, such as open.")] = "",
    severity: Annotated[str, typer.Option("--severity", help="Only this bad, such as fatal.")] = "",
) -> None:
    """List the findings, the last seen first."""
    context_of(typer_context).each(FINDINGS, COLUMNS, node=node, state=state, severity=severity)


@app.command("show")
def show(typer_context: typer.Context, number: Number) -> None:
    """Show a finding: the source's own line, the rule, what would be done and why."""
    context = context_of(typer_context)
    _show(context, context.client.get(FINDINGS.below(number)))


@app.command("close")
def close(typer_context: typer.Context, number: Number, reason: RequiredReason = "") -> None:
    """Close a finding: the fault is resolved, and its evidence counts for no other finding."""
    context = context_of(typer_context)
    body = {"reason": reason}
    _show(context, context.client.post(FINDINGS.below(number, "close"), body))


def _show(context: CliContext, document: Document) -> None:
    context.show(document)
    names = ("node", "cluster", "fault", "title", "severity", "outcome", "state", "rule", "citation", "raw")
    context.details(
        {name: str(document[name]) for name in names}
        | {
            "gpu": document["device"] or "whole machine",
            "uuid": document["gpu_uuid"],
            "ladder": " > ".join(document["ladder"]),
            "seen": f"{document['count']} times, {document['first_at']} to {document['last_at']}",
            "why": "\n".join(document["reasons"]),
            "closed": " ".join((document["closed_by"], document["close_reason"])).strip(),
        }
    )
