"""`slipway models retention`: which versions of a model are kept."""

from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of, counted, size
from slipway.cli.options import Reason, Timeout, Wait
from slipway.cli.waiting import until_over
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Retention rules; nothing is deleted without a preview.", no_args_is_help=True)


VERSION_COLUMNS: Columns = {
    "VERSION": "version",
    "SIZE": lambda row: size(row["bytes"]),
    "RESULT": lambda row: "would be deleted" if row["goes"] else "kept",
    "REASON": lambda row: "; ".join(row["reasons"]),
}


@app.command("show")
def show(typer_context: typer.Context, model: str) -> None:
    """Show the retention rule of a model."""
    context = context_of(typer_context)
    _say(context, context.client.get(at("models", model, "retention")))


@app.command("set")
def set_rule(
    typer_context: typer.Context,
    model: str,
    keep_last: Annotated[int, typer.Option("--keep-last", help="Keep the newest N ready versions.")],
    keep_days: Annotated[
        int, typer.Option("--keep-days", help="Also keep versions newer than this many days.")
    ] = 0,
    reason: Reason = "",
) -> None:
    """Set the retention rule of a model; nothing is deleted until it is applied."""
    context = context_of(typer_context)
    body = {"keep_last": keep_last, "keep_days": keep_days, "reason": reason}
    _say(context, context.client.put(at("models", model, "retention"), body))


@app.command("preview")
def preview(typer_context: typer.Context, model: str) -> None:
    """Show which versions would be deleted or kept, and why."""
    context = context_of(typer_context)
    seen = context.client.get(at("models", model, "retention", "preview"))
    context.show(seen)
    _say_preview(context, seen)


def _deletions(context: CliContext, given: dict[str, Any]) -> str:
    """Fills in the preview that is shown, so that no other one is applied."""
    if given["seen"] == "":
        # A variable that nobody set must not become a preview that nobody looked at.
        raise CommandFailed("--preview is empty. Give the ID of a preview, or leave it out.", Exit.USAGE)
    if given["seen"]:
        return f"Delete the versions of preview {given['seen']}?"
    found = context.client.get(at("models", given["model"], "retention", "preview"))
    _say_preview(context, found)
    given["seen"] = found["preview"]
    return "Delete these versions?" if given["daily"] or any(row["goes"] for row in found["versions"]) else ""


@app.command("apply")
@confirmed(_deletions)
def apply(
    typer_context: typer.Context,
    model: str,
    seen: Annotated[
        str | None,
        typer.Option("--preview", help="ID of a preview that was reviewed; default: show one now."),
    ] = None,
    daily: Annotated[bool, typer.Option("--daily", help="Apply it once a day from now on.")] = False,
    reason: Reason = "",
    wait: Wait = True,
    timeout: Timeout = 3600,
) -> None:
    """Apply the rule: delete the versions of the preview; refused if the preview is out of date."""
    context = context_of(typer_context)
    body: dict[str, Any] = {"preview": seen, "daily": daily, "reason": reason}
    rule = context.client.create(at("models", model, "retention", "apply"), body)
    if wait:
        address = at("models", model, "retention")
        rule = until_over(context, rule, address, is_open=lambda rule: rule["applying"], timeout=timeout)
    _say(context, rule)


@app.command("stop")
def stop(typer_context: typer.Context, model: str, reason: Reason = "") -> None:
    """Stop applying the rule; the rule is kept."""
    context = context_of(typer_context)
    _say(context, context.client.post(at("models", model, "retention", "stop"), {"reason": reason}))


@app.command("delete")
@app.command("drop", hidden=True)
@confirmed("Delete the retention rule of {model}?")
def drop(typer_context: typer.Context, model: str, reason: Reason = "") -> None:
    """Delete the rule: every version is kept."""
    context = context_of(typer_context)
    context.client.delete(at("models", model, "retention"), reason=reason)
    context.tell({"model": model, "rule": None}, f"{model}: no retention rule.")


def _say(context: CliContext, rule: Document) -> None:
    context.show(rule)
    if rule["stuck"]:
        raise CommandFailed(f"The rule of {rule['model']} is stuck: {rule['stuck']}", Exit.FAILED)
    how = "applied daily" if rule["daily"] else "being applied" if rule["applying"] else "applied manually"
    days = f" and those newer than {counted(rule['keep_days'], 'day')}" if rule["keep_days"] else ""
    context.say(f"{rule['model']} keeps the newest {counted(rule['keep_last'], 'version')}{days}; {how}")
    if last := rule["last_run"]:
        context.say(f"Last run {last['at']}: deleted {_deleted(last)}")


def _deleted(last: Document) -> str:
    count = last["deleted_versions"]
    if not count:
        return "nothing"
    told = f"{counted(count, 'version')}, {size(last['deleted_bytes'])}"
    return f"{told}; garbage collection frees what is unreferenced"


def _say_preview(context: CliContext, seen: Document) -> None:
    rows = seen["versions"]
    context.tabulate(rows, VERSION_COLUMNS)
    going = sum(row["goes"] for row in rows)
    context.say(f"{going} of {len(rows)} versions would be deleted; {size(seen['freed_bytes'])} to be freed.")
