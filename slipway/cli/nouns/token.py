from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of, first_of
from slipway.cli.exchanging import exchange
from slipway.cli.options import Reason
from slipway.client import at

app = typer.Typer(help="API tokens.", no_args_is_help=True)
app.command("exchange")(exchange)


COLUMNS: Columns = {
    "ID": "id",
    "NAME": "name",
    "STATE": "state",
    "LIMITED TO": lambda row: first_of([*filter(None, [row.get("team")]), *row.get("services", ())]),
    "SCOPES": lambda row: first_of(row.get("scopes", ())),
    "EXPIRES": "expires_at",
    "LAST USED": "last_used_at",
}


@app.command("create")
def create(
    typer_context: typer.Context,
    name: str,
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="Scope, such as releases.start; repeatable.")
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            "--preset", help="Scopes by purpose: read-only, ci, approver, operator, scim or heartbeats."
        ),
    ] = "",
    team: Annotated[str, typer.Option("--team", help="Limit it to this team.")] = "",
    service: Annotated[
        list[str] | None, typer.Option("--service", help="Limit it to this service; repeatable.")
    ] = None,
    expires_in_days: Annotated[
        int | None,
        typer.Option(
            "--expires-in-days", min=1, help="Default: 90, or the rest of the creating token's lifetime."
        ),
    ] = None,
) -> None:
    """Create a token; its secret is shown once, on stdout."""
    context = context_of(typer_context)
    body: dict[str, Any] = {
        "name": name,
        "preset": preset,
        "scopes": scope,
        "team": team,
        "services": service,
    }
    body = {key: value for key, value in body.items() if value}
    if expires_in_days is not None:
        body["expires_at"] = (datetime.now(UTC) + timedelta(days=expires_in_days)).isoformat()
    # No retry under an idempotency key: a secret is never told twice.
    document = context.client.post(at("tokens"), body)
    context.show(document)
    context.say_secret(document["token"])


@app.command("list")
def list_tokens(typer_context: typer.Context) -> None:
    """List your API tokens."""
    context = context_of(typer_context)
    context.each(at("tokens"), COLUMNS)


@app.command("revoke")
@confirmed("Revoke token {token_id}?")
def revoke(typer_context: typer.Context, token_id: int, reason: Reason = "") -> None:
    """Revoke a token."""
    context = context_of(typer_context)
    context.client.delete(at("tokens", token_id), reason=reason)
    context.tell({"id": token_id, "state": "revoked"}, f"Token {token_id} is revoked.")
