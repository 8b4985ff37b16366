from collections.abc import Callable
from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.moments import with_zone
from slipway.cli.names import split_version
from slipway.cli.options import Reason, VersionLabel
from slipway.client import at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Aliases: names that point at versions, with their history.", no_args_is_help=True)

MOST = 100
Names = Annotated[list[str], typer.Argument(metavar="MODEL ALIAS...")]
OfModel = Annotated[
    str | None, typer.Option("--model", "-m", help="The model; same as the first argument.", hidden=True)
]


HISTORY_COLUMNS: Columns = {
    "AT": "at",
    "ALIAS": "alias",
    "FROM": "from_version",
    "TO": lambda row: row["to_version"] or "deleted",
    "DIGEST": lambda row: (row["to_digest"] or "")[:8],
    "BY": "by",
    "RELEASE": "release_id",
    "REASON": "reason",
}
COLUMNS: Columns = {
    "ALIAS": "name",
    "VERSION": "version",
    "SINCE": "moved_at",
    "BY": "moved_by",
    "REASON": "reason",
    "PROTECTED": lambda row: "yes" if row["protected"] else "",
}


def _named(given: list[str], model: str | None, *, what: str, least: int, most: int) -> tuple[str, list[str]]:
    """The model, and the aliases of it. Raises CommandFailed."""
    named = given if model is None else [model, *given]
    if not 1 + least <= len(named) <= 1 + most:
        raise CommandFailed(f"Missing or extra argument. Usage: {what}.", Exit.USAGE)
    return named[0], named[1:]


@app.command("set")
def set_alias(
    typer_context: typer.Context,
    alias: Annotated[str, typer.Argument(help="Such as production.")],
    version: VersionLabel,
    reason: Reason = "",
) -> None:
    """Point an alias at a version."""
    context = context_of(typer_context)
    model, name = split_version(version)
    body = {"version": name, "reason": reason}
    document = context.client.put(at("models", model, "aliases", alias), body)
    context.tell(document, f"{model}:{alias} points at {name}")


@app.command("history")
def history(
    typer_context: typer.Context,
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL [ALIAS]", help="All aliases of the model, or only this one."),
    ] = None,
    model: OfModel = None,
    moment: Annotated[str, typer.Option("--at", help="State at this time, such as 2026-03-03T14:00Z.")] = "",
) -> None:
    """Show who moved the aliases, when and why; with --at, where each pointed at that time."""
    context = context_of(typer_context)
    model, aliases = _named(given or [], model, what="MODEL, or MODEL ALIAS", least=0, most=1)
    alias, moment = "".join(aliases), with_zone(context, moment)
    below = at("models", model, "aliases", alias) if aliases else at("models", model)
    address = below.below("history")
    rows = list(context.client.each(address, at=moment))
    context.show(rows)
    if not rows:
        when = f"pointed at a version at {moment}" if moment else "has ever been set"
        context.say(f"No alias {alias} of {model} {when}." if alias else f"No alias of {model} {when}.")
        return
    context.tabulate(rows, HISTORY_COLUMNS)


@app.command("list")
def list_aliases(
    typer_context: typer.Context,
    given: Annotated[list[str] | None, typer.Argument(metavar="MODEL")] = None,
    model: OfModel = None,
) -> None:
    """List the aliases of a model, and which of them are protected."""
    context = context_of(typer_context)
    model, _ = _named(given or [], model, what="MODEL", least=0, most=0)
    rows = list(context.client.each(at("models", model, "aliases")))
    protected = context.client.get(at("models", model))["protected_aliases"]
    for row in rows:
        row["protected"] = row["name"] in protected
    context.rows(rows, COLUMNS)
    if unused := sorted(set(protected) - {row["name"] for row in rows}):
        context.say(f"Protected but not set: {', '.join(unused)}")


def _deletion(context: CliContext, given: dict[str, Any]) -> str:
    model, (alias,) = _named(given["given"], given["model"], what="MODEL ALIAS", least=1, most=1)
    document = context.client.get(at("models", model, "aliases", alias))
    return f"Delete {model}:{alias}, which points at {document['version']}?"


@app.command("delete")
@confirmed(_deletion)
def delete(
    typer_context: typer.Context,
    given: Annotated[list[str], typer.Argument(metavar="MODEL ALIAS")],
    model: OfModel = None,
    reason: Reason = "",
) -> None:
    """Delete an alias; its history stays."""
    context = context_of(typer_context)
    model, (alias,) = _named(given, model, what="MODEL ALIAS", least=1, most=1)
    context.client.delete(at("models", model, "aliases", alias), reason=reason)
    context.tell(
        {"model": model, "name": alias, "deleted": True}, f"{model}:{alias} is deleted; its history stays."
    )


@app.command("protect")
def protect(typer_context: typer.Context, given: Names, model: OfModel = None) -> None:
    """Allow only approvers and admins of the team to create, move or delete these aliases."""
    model, aliases = _named(given, model, what="MODEL ALIAS...", least=1, most=MOST)
    _protect(typer_context, model, lambda protected: protected | set(aliases))


@app.command("unprotect")
def unprotect(typer_context: typer.Context, given: Names, model: OfModel = None) -> None:
    """Allow every developer of the team to move these aliases again."""
    model, aliases = _named(given, model, what="MODEL ALIAS...", least=1, most=MOST)
    _protect(typer_context, model, lambda protected: protected - set(aliases))


def _protect(typer_context: typer.Context, model: str, changed: Callable[[set[str]], set[str]]) -> None:
    context = context_of(typer_context)
    document = context.client.change(
        at("models", model),
        lambda found: {"protected_aliases": sorted(changed(set(found["protected_aliases"])))},
    )
    context.tell(
        document, f"Protected aliases of {model}: {', '.join(document['protected_aliases']) or 'none'}"
    )
