"""`slipway gpu incident` and `healing`: machines that are healed, and whether they are."""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.options import RequiredReason
from slipway.client import ApiPath, Document, at
from slipway.exits import CommandFailed, Exit

incident = typer.Typer(help="Machines that are healed: look, approve, hold, cancel.", no_args_is_help=True)
healing = typer.Typer(help="Whether healing acts; its kill switch and breakers.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(metavar="INCIDENT", help="ID from `list`.", min=1)]
COLUMNS: Columns = {
    "INCIDENT": "id",
    "NODE": "node",
    "GPU": lambda row: row["device"] or "whole machine",
    "FAULT": "title",
    "STATE": lambda row: f"{row['state']}, held: {row['hold']}" if row["hold"] else row["state"],
    "ACTION": "action",
    "REASON": lambda row: row["hold_reason"] or row["reason"],
}
ENTRY_COLUMNS: Columns = {"AT": "at", "STATE": "state", "BY": "actor", "EVENT": "words"}
POOL_COLUMNS: Columns = {
    "POOL": "name",
    "SLOTS TAKEN": "slots_taken",
    "BREAKER": lambda row: f"open: {row['breaker_reason']}" if row["breaker_opened_at"] else "closed",
}


@incident.command("list")
def list_incidents(
    typer_context: typer.Context,
    state: Annotated[str, typer.Option("--state", help="Only in this state.")] = "",
    node: Annotated[str, typer.Option("--node", help="Only of this machine.")] = "",
) -> None:
    """List incidents: machines with a fault and their remediation."""
    context_of(typer_context).each(at("gpu-health", "incidents"), COLUMNS, state=state, node=node)


@incident.command("show")
def show(typer_context: typer.Context, number: Number) -> None:
    """Show an incident with its timeline."""
    context = context_of(typer_context)
    found = context.client.get(_path(number))
    told = context.client.get(_path(number, "timeline"))["results"]
    context.show(found | {"timeline": told})
    context.details(
        {
            "node": f"{found['node']} ({found['pool']})",
            "fault": found["title"],
            "gpu": found["device"] or "whole machine",
            "state": found["state"],
            "reason": found["hold_reason"] or found["reason"],
            "ladder": " > ".join(
                f"[{one}]" if index == found["rung"] else one for index, one in enumerate(found["ladder"])
            ),
        }
    )
    context.tabulate(told, ENTRY_COLUMNS)


@incident.command("evidence")
def evidence(
    typer_context: typer.Context,
    number: Number,
    output: Annotated[
        Path | None, typer.Option("--to", help="Write it to this file, for the vendor of the machine.")
    ] = None,
) -> None:
    """Show what was collected before the last action: serials, readings, outputs of tools."""
    context = context_of(typer_context)
    found = context.client.get(_path(number, "evidence"))
    if output is not None:
        try:
            output.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise CommandFailed(f"{output}: {error.strerror}.", Exit.FAILED) from None
        context.tell(found, f"Written to {output}.")
        return
    context.show(found)
    context.say(orjson.dumps(found["evidence"], option=orjson.OPT_INDENT_2).decode())


@incident.command("rma")
def rma(
    typer_context: typer.Context,
    number: Number,
    output: Annotated[
        Path | None, typer.Option("--to", help="File; default: rma-incident-NUMBER.zip.")
    ] = None,
) -> None:
    """Write all that the machine's vendor asks for to a zip: serial numbers, logs, counters, checks."""
    context = context_of(typer_context)
    target = output or Path(f"rma-incident-{number}.zip")
    content = context.client.content(_path(number, "rma"))
    try:
        target.write_bytes(content)
    except OSError as error:
        raise CommandFailed(f"{target}: {error.strerror}.", Exit.FAILED) from None
    context.tell({"incident": number, "file": str(target), "bytes": len(content)}, f"Written to {target}.")


@incident.command("approve")
@confirmed("Let incident {number} go on with its next step?")
def approve(typer_context: typer.Context, number: Number, reason: RequiredReason = "") -> None:
    """Approve the action, or the return to service, that the incident asks approval for."""
    _deed(context_of(typer_context), number, "approve", reason)


@incident.command("hold")
def hold(typer_context: typer.Context, number: Number, reason: RequiredReason = "") -> None:
    """Do nothing more until somebody resumes it."""
    _deed(context_of(typer_context), number, "hold", reason)


@incident.command("resume")
def resume(typer_context: typer.Context, number: Number, reason: RequiredReason = "") -> None:
    """Let what is held go on."""
    _deed(context_of(typer_context), number, "resume", reason)


@incident.command("verify")
def verify(typer_context: typer.Context, number: Number, reason: RequiredReason = "") -> None:
    """You have dealt with it: check the machine, and return it to service if that passes."""
    _deed(context_of(typer_context), number, "verify", reason)


@incident.command("cancel")
@confirmed("Cancel incident {number}?")
def cancel(
    typer_context: typer.Context,
    number: Number,
    returns: Annotated[
        bool, typer.Option("--return-to-service", help="Return the machine, though nobody verified it.")
    ] = False,
    reason: RequiredReason = "",
) -> None:
    """Do no more about it; the machine stays out of service unless told otherwise."""
    _deed(context_of(typer_context), number, "cancel", reason, return_to_service=returns)


@healing.command("show")
def show_healing(typer_context: typer.Context) -> None:
    """Show whether healing acts, its limits, and the pools in which it was asked."""
    context = context_of(typer_context)
    found = context.client.get(at("gpu-health", "healing"))
    pools = list(context.client.each(at("gpu-health", "pools")))
    context.show(found | {"pools": pools})
    stopped = (
        f"{found['kill_switch_by']}: {found['kill_switch_reason']}" if found["kill_switch_at"] else "off"
    )
    context.details({"mode": found["mode"], "kill switch": stopped, **found["limits"]})
    if pools:
        context.tabulate(pools, POOL_COLUMNS)


@healing.command("mode")
@confirmed(lambda _, given: "Let healing drain and repair machines?" if given["wanted"] == "act" else "")
def mode(
    typer_context: typer.Context,
    wanted: Annotated[str, typer.Argument(metavar="MODE", help="dry_run or act.")],
    reason: RequiredReason = "",
) -> None:
    """Enable auto-remediation, or switch to a dry run."""
    context = context_of(typer_context)
    body = {"mode": wanted, "reason": reason}
    changed = context.client.post(at("gpu-health", "healing", "change"), body)
    context.tell(changed, f"The mode is {changed['mode']}.")


def kill_switch(
    typer_context: typer.Context,
    wanted: Annotated[str, typer.Argument(metavar="on|off")],
    stop_drains: Annotated[
        bool, typer.Option("--stop-drains", help="With on: stop the drains that are under way, too.")
    ] = False,
    reason: RequiredReason = "",
) -> None:
    """Stop all healing, everywhere; or let it go on."""
    if wanted not in ("on", "off") or (stop_drains and wanted == "off"):
        raise CommandFailed("Say on or off; --stop-drains goes with on.", Exit.USAGE)
    context = context_of(typer_context)
    deed = "stop" if wanted == "on" else "restart"
    body: dict[str, object] = {"reason": reason}
    body |= {"stop_drains": True} if stop_drains else {}
    changed = context.client.post(at("gpu-health", "healing", deed), body)
    context.tell(changed, f"The kill switch is {wanted}.")


@healing.command("close-breaker")
@confirmed("Close the breaker of {pool} and {backlog} its backlog?")
def close_breaker(
    typer_context: typer.Context,
    pool: Annotated[str, typer.Argument(metavar="POOL", help="Name from `show`.")],
    backlog: Annotated[str, typer.Option("--backlog", help="replay or discard.")],
    reason: RequiredReason = "",
) -> None:
    """Close the breaker of a pool; what waited is replayed or discarded."""
    context = context_of(typer_context)
    found = [one for one in context.client.each(at("gpu-health", "pools")) if one["name"] == pool]
    if not found:
        raise CommandFailed(f"There is no pool {pool}.", Exit.USAGE)
    body = {"backlog": backlog, "reason": reason}
    path = at("gpu-health", "pools", found[0]["id"], "close-breaker")
    context.tell(context.client.post(path, body), f"The breaker of {pool} is closed.")


def _deed(context: CliContext, number: int, deed: str, reason: str, **more: object) -> None:
    body = {"reason": reason, **more}
    found: Document = context.client.post(_path(number, deed), body)
    context.tell(found, f"Incident {number} is {found['state']}. {found['hold_reason'] or found['reason']}")


def _path(number: int, *more: str) -> ApiPath:
    return at("gpu-health", "incidents", number, *more)
