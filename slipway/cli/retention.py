"""`slipway models retention`: which versions of a model stay."""

from typing import Annotated, Any

import typer

from slipway.cli.context import Context, context_of, counted, size
from slipway.cli.options import Reason, Timeout, Wait, Yes
from slipway.cli.waiting import until_over
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(
    help="Retention rules: they delete nothing before what would go was looked at.", no_args_is_help=True
)


@app.command("show")
def show(typer_context: typer.Context, model: str) -> None:
    """The rule of a model."""
    context = context_of(typer_context)
    _say(context, context.client.get(at("models", model, "retention")))


@app.command("set")
def set_rule(
    typer_context: typer.Context,
    model: str,
    keep_last: Annotated[int, typer.Option("--keep-last", help="So many of the newest versions stay.")],
    keep_days: Annotated[
        int, typer.Option("--keep-days", help="What has been ready for fewer days stays too.")
    ] = 0,
    reason: Reason = "",
) -> None:
    """Give a model a rule, or change it; nothing is deleted until it is applied."""
    context = context_of(typer_context)
    body = {"keep_last": keep_last, "keep_days": keep_days, "reason": reason}
    _say(context, context.client.put(at("models", model, "retention"), body))


@app.command("preview")
def preview(typer_context: typer.Context, model: str) -> None:
    """What the rule would delete now, what it would keep, and why."""
    context = context_of(typer_context)
    seen = context.client.get(at("models", model, "retention", "preview"))
    context.show(seen)
    _say_preview(context, seen)


@app.command("apply")
def apply(
    typer_context: typer.Context,
    model: str,
    seen: Annotated[
        str | None, typer.Option("--preview", help="Of a preview that was looked at; else one is shown now.")
    ] = None,
    daily: Annotated[bool, typer.Option("--daily", help="And once a day from now on.")] = False,
    yes: Yes = False,
    reason: Reason = "",
    wait: Wait = True,
    timeout: Timeout = 3600,
) -> None:
    """Delete what the rule lets go; refused when something else would go than was seen."""
    context = context_of(typer_context)
    if seen == "":
        # A variable that nobody set must not become a preview that nobody looked at.
        raise CommandFailed("--preview is empty. Give one that was looked at, or leave it out.", Exit.USAGE)
    if seen is None:
        found = context.client.get(at("models", model, "retention", "preview"))
        _say_preview(context, found)
        seen = found["preview"]
        if daily or any(row["goes"] for row in found["versions"]):
            context.confirm("Delete these versions?", yes=yes)
    body: dict[str, Any] = {"preview": seen, "daily": daily, "reason": reason}
    rule = context.client.create(at("models", model, "retention", "apply"), body)
    if wait:
        address = at("models", model, "retention")
        rule = until_over(context, rule, address, is_open=lambda rule: rule["applying"], timeout=timeout)
    _say(context, rule)


@app.command("stop")
def stop(typer_context: typer.Context, model: str, reason: Reason = "") -> None:
    """Delete nothing more; the rule stays."""
    context = context_of(typer_context)
    _say(context, context.client.post(at("models", model, "retention", "stop"), {"reason": reason}))


@app.command("drop")
def drop(typer_context: typer.Context, model: str, reason: Reason = "") -> None:
    """Take the rule away: the model keeps every version."""
    context = context_of(typer_context)
    context.client.delete(at("models", model, "retention"), reason=reason)
    context.show({"model": model, "rule": None})
    context.say(f"{model} keeps every version.")


def _say(context: Context, rule: Document) -> None:
    context.show(rule)
    if rule["stuck"]:
        raise CommandFailed(f"The rule of {rule['model']} is stuck: {rule['stuck']}", Exit.FAILED)
    how = "once a day" if rule["daily"] else "being applied" if rule["applying"] else "when it is applied"
    days = f" and what is newer than {counted(rule['keep_days'], 'day')}" if rule["keep_days"] else ""
    context.say(f"{rule['model']} keeps the last {counted(rule['keep_last'], 'version')}{days}, {how}")
    if last := rule["last_run"]:
        context.say(f"Last run {last['at']}: deleted {_deleted(last)}")


def _deleted(last: Document) -> str:
    count = last["deleted_versions"]
    if not count:
        return "nothing"
    together = " together" if count > 1 else ""
    told = f"{counted(count, 'version')} of {size(last['deleted_bytes'])}{together}"
    return f"{told}; a collection frees what nothing else needs"


def _say_preview(context: Context, seen: Document) -> None:
    rows = seen["versions"]
    context.table(
        ("VERSION", "SIZE", "", "WHY"),
        (
            (
                row["version"],
                size(row["bytes"]),
                "goes" if row["goes"] else "stays",
                "; ".join(row["reasons"]),
            )
            for row in rows
        ),
    )
    going = sum(row["goes"] for row in rows)
    context.say(f"{going} of {len(rows)} versions go; {size(seen['freed_bytes'])} are freed later.")
