"""`slipway client-key`: keys with which clients use services through a gateway."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of
from slipway.cli.options import OnlyTeam, Reason
from slipway.client import at

app = typer.Typer(help="Keys of clients: who may use which service, and how much.", no_args_is_help=True)
COLUMNS: Columns = {
    "ID": "id",
    "NAME": "name",
    "STATE": "state",
    "BEGINS WITH": "prefix",
    "TEAM": "team",
    "SERVICES": lambda row: ", ".join(row["services"]) or "all",
    "REQUESTS/MIN": "requests_per_minute",
    "TOKENS/MIN": "tokens_per_minute",
    "EXPIRES": "expires_at",
}


@app.command("list")
def list_keys(typer_context: typer.Context, team: OnlyTeam = "") -> None:
    """List keys of clients."""
    context_of(typer_context).each(at("client-keys"), COLUMNS, **({"team": team} if team else {}))


@app.command("create")
def create(
    typer_context: typer.Context,
    name: Annotated[str, typer.Argument(help="Who uses it.")],
    team: Annotated[str, typer.Option("--team", help="Whose services it opens.")] = "default",
    service: Annotated[
        list[str] | None,
        typer.Option("--service", help="Service or ability; repeatable. Default: all of the team."),
    ] = None,
    requests_per_minute: Annotated[int | None, typer.Option("--requests-per-minute", min=1)] = None,
    tokens_per_minute: Annotated[int | None, typer.Option("--tokens-per-minute", min=1)] = None,
    expires_in_days: Annotated[int | None, typer.Option("--expires-in-days", min=1)] = None,
) -> None:
    """Create a key; it is shown once, on stdout."""
    context = context_of(typer_context)
    body: dict[str, Any] = {
        "name": name,
        "team": team,
        "services": service,
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
    }
    if expires_in_days is not None:
        body["expires_at"] = (datetime.now(UTC) + timedelta(days=expires_in_days)).isoformat()
    # No retry under an idempotency key: a secret is never told twice.
    document = context.client.post(at("client-keys"), {key: one for key, one in body.items() if one})
    context.show(document)
    context.say_secret(document["key"])


@app.command("revoke")
@confirmed("Revoke client key {key_id}?")
def revoke(typer_context: typer.Context, key_id: int, reason: Reason = "") -> None:
    """Revoke a key; gateways refuse it within seconds."""
    context = context_of(typer_context)
    context.client.delete(at("client-keys", str(key_id)), reason=reason)
    context.say(f"Key {key_id} is revoked.")


@app.command("require")
def require(typer_context: typer.Context, service: str, reason: Reason = "") -> None:
    """Have the gateway answer for a service to clients with a key alone."""
    _demand(typer_context, service, reason, demanded=True)


@app.command("open")
def open_to_all(typer_context: typer.Context, service: str, reason: Reason = "") -> None:
    """Have the gateway answer for a service to everybody who reaches it."""
    _demand(typer_context, service, reason, demanded=False)


def _demand(typer_context: typer.Context, service: str, reason: str, *, demanded: bool) -> None:
    context = context_of(typer_context)
    body = {"requires_key": demanded, "reason": reason}
    document = context.client.put(at("services", service, "client-access"), body)
    words = (
        "answers to clients with a key alone" if demanded else "answers to everybody who reaches the gateway"
    )
    context.tell(document, f"{service} {words}, within seconds.")
