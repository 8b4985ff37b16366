"""`slipway group-rule`: which groups of the identity provider give which roles."""

from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.options import Number, Reason
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(
    help="Group rules: roles by groups of the identity provider. For administrators.", no_args_is_help=True
)

Pattern = Annotated[str, typer.Argument(help="Group as the provider sends it; * stands for any characters.")]
Team = Annotated[str, typer.Option("--team", help="Team; without one, members administer the installation.")]
Role = Annotated[str, typer.Option("--role", help="viewer, developer, approver, operator or admin.")]

COLUMNS: Columns = {
    "ID": "id",
    "GROUP": "pattern",
    "TEAM": lambda row: row["team"] or "all",
    "ROLE": lambda row: row["role"] or "administrator",
    "ADDED": "created_at",
    "BY": "created_by",
}


@app.command("list")
def list_rules(typer_context: typer.Context) -> None:
    """List group rules."""
    context_of(typer_context).each(at("group-rules"), COLUMNS)


@app.command("add")
def add(
    typer_context: typer.Context,
    pattern: Pattern,
    team: Team = "",
    role: Role = "",
    reason: Reason = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
) -> None:
    """Add a rule. It counts at once for people whose groups are known."""
    context = context_of(typer_context)
    body = _body(pattern, team, role)
    if dry_run:
        _try(context, [*_in_force(context), body], [])
        return
    rule = context.client.create(at("group-rules"), body | ({"reason": reason} if reason else {}))
    context.tell(rule, f"Rule {rule['id']}: {_told(rule)}")


@app.command("edit")
def edit(
    typer_context: typer.Context,
    number: Number,
    pattern: Annotated[str, typer.Option("--group", help="Group; * stands for any characters.")] = "",
    team: Team = "",
    role: Role = "",
    reason: Reason = "",
) -> None:
    """Change the options given."""
    context = context_of(typer_context)
    body = {"pattern": pattern, "team": team, "role": role}
    body = {name: value for name, value in body.items() if value}
    if not body:
        raise CommandFailed("Nothing to change: give --group, --team or --role.", Exit.USAGE)
    rule = context.client.patch(at("group-rules", number), body | ({"reason": reason} if reason else {}))
    context.tell(rule, f"Rule {rule['id']}: {_told(rule)}")


@app.command("remove")
@confirmed(lambda _, given: "" if given["dry_run"] else f"Remove rule {given['number']} and what it gives?")
def remove(
    typer_context: typer.Context,
    number: Number,
    reason: Reason = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
) -> None:
    """Remove a rule; what only it gave is taken away at once."""
    context = context_of(typer_context)
    if dry_run:
        _try(context, _in_force(context, without=number), [])
        return
    context.client.delete(at("group-rules", number), reason=reason)
    context.tell({"id": number, "state": "removed"}, f"Rule {number} is removed.")


@app.command("dry-run")
def dry_run(
    typer_context: typer.Context,
    groups: Annotated[
        list[str] | None, typer.Option("--group", help="Group of somebody who has nothing yet; repeatable.")
    ] = None,
) -> None:
    """Show what the rules in force would change, and what groups would give."""
    _try(context_of(typer_context), None, groups or [])


def _body(pattern: str, team: str, role: str) -> dict[str, Any]:
    return {"pattern": pattern} | ({"team": team} if team else {}) | ({"role": role} if role else {})


def _in_force(context: CliContext, *, without: int | None = None) -> list[dict[str, Any]]:
    found = context.client.each(at("group-rules"))
    return [_body(one["pattern"], one["team"] or "", one["role"]) for one in found if one["id"] != without]


def _try(context: CliContext, rules: list[dict[str, Any]] | None, groups: list[str]) -> None:
    body: dict[str, Any] = {"groups": groups} | ({} if rules is None else {"rules": rules})
    found = context.client.post(at("group-rules", "dry-run"), body)
    context.show(found)
    for one in found["people"]:
        context.say(f"{one['username']}: {'; '.join(_shift(shift) for shift in one['changes'])}")
    if not found["people"]:
        context.say(f"No change for the {found['known']} people whose groups are known.")
    if groups:
        given = "; ".join(_shift(shift) for shift in found["given"]) or "nothing"
        context.say(f"These groups give: {given}")


def _shift(shift: Document) -> str:
    team = shift["team"] or "the whole installation"
    if shift["before"] is None:
        return f"gains {shift['after']} of {team}"
    if shift["after"] is None:
        return f"loses {shift['before']} of {team}"
    return f"{shift['before']} becomes {shift['after']} of {team}"


def _told(rule: Document) -> str:
    gives = f"{rule['role']} of {rule['team']}" if rule["team"] else "administrator"
    return f"{rule['pattern']} gives {gives}"
