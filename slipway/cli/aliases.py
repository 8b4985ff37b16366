from collections.abc import Callable
from typing import Annotated

import typer

from slipway.cli.context import context_of
from slipway.cli.names import split_version
from slipway.cli.options import OfModel, Reason, VersionLabel, Yes
from slipway.client import at

app = typer.Typer(help="Aliases: names that move between versions, and remember.", no_args_is_help=True)

Names = Annotated[list[str], typer.Argument(metavar="ALIAS...")]


@app.command("set")
def set_alias(
    typer_context: typer.Context,
    alias: Annotated[str, typer.Argument(help="For example production.")],
    version: VersionLabel,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the history.")] = "",
) -> None:
    """Point an alias at a version."""
    context = context_of(typer_context)
    model, name = split_version(version)
    body = {"version": name, "reason": context.asked_for(reason)}
    document = context.client.put(at("models", model, "aliases", alias), body)
    context.show(document)
    context.say(f"{model}:{alias} is {name}")


@app.command("history")
def history(
    typer_context: typer.Context,
    model: OfModel,
    alias: Annotated[str, typer.Argument(help="Only this one; else all of the model.")] = "",
    moment: Annotated[
        str, typer.Option("--at", help="Only what was in force then, such as 2026-03-03T14:00Z.")
    ] = "",
) -> None:
    """Who pointed the aliases at what, when, and why; with --at, what each was at that moment."""
    context = context_of(typer_context)
    address = at("models", model, "aliases", alias, "history") if alias else at("models", model, "history")
    rows = list(context.client.each(address, at=moment))
    context.show(rows)
    if not rows:
        when = f"named a version at {moment}" if moment else "has ever been set"
        context.say(f"No alias {alias} of {model} {when}." if alias else f"No alias of {model} {when}.")
        return
    context.table(
        ("AT", "ALIAS", "FROM", "TO", "DIGEST", "BY", "RELEASE", "WHY"),
        (
            (
                r["at"],
                r["alias"],
                r["from_version"],
                r["to_version"] or "deleted",
                (r["to_digest"] or "")[:12],
                r["by"],
                r["release_id"],
                r["reason"],
            )
            for r in rows
        ),
    )


@app.command("list")
def list_aliases(typer_context: typer.Context, model: OfModel) -> None:
    """The aliases of a model, and which of them are protected."""
    context = context_of(typer_context)
    rows = list(context.client.each(at("models", model, "aliases")))
    protected = context.client.get(at("models", model))["protected_aliases"]
    for row in rows:
        row["protected"] = row["name"] in protected
    context.show(rows)
    context.table(
        ("ALIAS", "VERSION", "SINCE", "BY", "WHY", "PROTECTED"),
        (
            (
                r["name"],
                r["version"],
                r["moved_at"],
                r["moved_by"],
                r["reason"],
                "yes" if r["protected"] else "",
            )
            for r in rows
        ),
    )
    if unused := sorted(set(protected) - {row["name"] for row in rows}):
        context.say(f"Protected, and pointing nowhere: {', '.join(unused)}")


@app.command("delete")
def delete(
    typer_context: typer.Context, alias: str, model: OfModel, reason: Reason = "", yes: Yes = False
) -> None:
    """Delete an alias; its history stays."""
    context = context_of(typer_context)
    document = context.client.get(at("models", model, "aliases", alias))
    context.confirm(f"Delete {model}:{alias}, which is {document['version']}?", yes=yes)
    why = context.asked_for(reason)
    context.client.delete(at("models", model, "aliases", alias), reason=why)
    context.show({"model": model, "name": alias, "deleted": True})
    context.say(f"{model}:{alias} is deleted; its history stays.")


@app.command("protect")
def protect(typer_context: typer.Context, aliases: Names, model: OfModel) -> None:
    """Let only approvers and admins of the team create, move or delete aliases of these names."""
    _protect(typer_context, model, lambda protected: protected | set(aliases))


@app.command("unprotect")
def unprotect(typer_context: typer.Context, aliases: Names, model: OfModel) -> None:
    """Let every developer of the team move these again."""
    _protect(typer_context, model, lambda protected: protected - set(aliases))


def _protect(typer_context: typer.Context, model: str, changed: Callable[[set[str]], set[str]]) -> None:
    context = context_of(typer_context)
    document = context.client.change(
        at("models", model),
        lambda found: {"protected_aliases": sorted(changed(set(found["protected_aliases"])))},
    )
    context.show(document)
    context.say(f"Protected of {model}: {', '.join(document['protected_aliases']) or 'no alias'}")
