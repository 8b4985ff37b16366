"""`slipway service-account` and `slipway credential`: programs that come with a token of their CI system."""

from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of, first_of
from slipway.cli.options import Number, Reason
from slipway.client import at
from slipway.exits import CommandFailed, Exit

GITHUB, GITLAB = "https://token.actions.githubusercontent.com", "https://gitlab.com"
accounts = typer.Typer(help="Service accounts: accounts of programs.", no_args_is_help=True)
credentials = typer.Typer(
    help="Federated credentials: which tokens of CI jobs a service account accepts.", no_args_is_help=True
)
ACCOUNT_COLUMNS: Columns = {
    "USERNAME": "username",
    "TEAMS": lambda row: ", ".join(f"{one['team']}:{one['role']}" for one in row["teams"]),
    "ACTIVE": lambda row: "yes" if row["is_active"] else "no",
    "DESCRIPTION": "description",
}
COLUMNS: Columns = {
    "ID": "id",
    "ACCOUNT": "account",
    "NAME": "name",
    "ISSUER": "issuer",
    "SUBJECT": "subject",
    "CLAIMS": lambda row: ", ".join(f"{name}={value}" for name, value in row["claims"].items()),
    "SCOPES": lambda row: first_of(row["scopes"]),
    "LAST USED": "last_used_at",
}


@accounts.command("list")
def list_accounts(typer_context: typer.Context) -> None:
    """List service accounts."""
    context_of(typer_context).each(at("service-accounts"), ACCOUNT_COLUMNS)


@accounts.command("create")
def create_account(
    typer_context: typer.Context,
    username: str,
    team: Annotated[str, typer.Option("--team", help="Team that it works in.")],
    role: Annotated[str, typer.Option("--role", help="Role in the team.")] = "developer",
    description: Annotated[str, typer.Option("--description", help="Description.")] = "",
) -> None:
    """Create a service account."""
    context = context_of(typer_context)
    body = {"username": username, "team": team, "role": role, "description": description}
    made = context.client.create(at("service-accounts"), body)
    context.tell(made, f"{username} is {role} of {team}.")


@credentials.command("list")
def list_credentials(typer_context: typer.Context) -> None:
    """List federated credentials."""
    context_of(typer_context).each(at("federated-credentials"), COLUMNS)


@credentials.command("add")
def add(
    typer_context: typer.Context,
    account: Annotated[str, typer.Argument(help="Service account.")],
    name: Annotated[str, typer.Argument(help="Name of the credential.")],
    issuer: Annotated[str, typer.Option("--issuer", help="github, gitlab, or the address of an issuer.")],
    scopes: Annotated[list[str], typer.Option("--scope", help="Scope of the token; repeatable.")],
    subject: Annotated[
        str, typer.Option("--subject", help="Pattern, such as repo:acme/api:ref:refs/heads/main.")
    ] = "",
    claims: Annotated[
        list[str] | None, typer.Option("--claim", help="NAME=PATTERN of a further claim; repeatable.")
    ] = None,
    audience: Annotated[str, typer.Option("--audience", help="Default: the console's address.")] = "",
    minutes: Annotated[int, typer.Option("--minutes", min=1, help="Lifetime of the token in minutes.")] = 30,
    single_use: Annotated[bool, typer.Option("--single-use", help="Take each job's token once.")] = False,
    reason: Reason = "",
) -> None:
    """Accept tokens of a CI system for a service account."""
    context = context_of(typer_context)
    body: dict[str, Any] = {
        "account": account,
        "name": name,
        "issuer": {"github": GITHUB, "gitlab": GITLAB}.get(issuer, issuer),
        "subject": subject,
        "claims": dict(_pair(one) for one in claims or ()),
        "scopes": scopes,
        "minutes": minutes,
        "single_use": single_use,
        "reason": reason,
    }
    body |= {"audience": audience} if audience else {}
    made = context.client.create(at("federated-credentials"), body)
    context.tell(made, f"Credential {made['id']}: {account} accepts tokens for {made['audience']}.")


@credentials.command("remove")
@confirmed("Remove credential {number}? Jobs that it lets in are refused.")
def remove(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Remove a federated credential."""
    context = context_of(typer_context)
    context.client.delete(at("federated-credentials", number), reason=reason)
    context.tell({"id": number, "state": "removed"}, f"Credential {number} is removed.")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise CommandFailed(f"{text}: give a claim as NAME=PATTERN.", Exit.USAGE)
    return name, value
