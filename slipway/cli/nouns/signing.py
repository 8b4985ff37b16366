"""`slipway signing`: the server's signing key, trusted keys and signature policies."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.files import text_of, write_text
from slipway.cli.options import Number, OnlyTeam, RequiredReason
from slipway.client import Document, ServerRefused, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(
    help="Signatures of versions: the server's key, trusted keys, signature policies.",
    no_args_is_help=True,
)


KEY_COLUMNS: Columns = {
    "ID": "id",
    "TEAM": "team",
    "NAME": "name",
    "FINGERPRINT": lambda row: row["fingerprint"][:16],
    "ADDED": "added_at",
    "BY": "added_by",
    "REASON": "reason",
    "REMOVED": "removed_at",
}


class SignatureDemandOption(StrEnum):
    OFF = "off"
    WARN = "warn"
    REQUIRE = "require"


@app.command("show")
def show(
    typer_context: typer.Context,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="File to write the public key to, for `model_signing verify key`."),
    ] = None,
) -> None:
    """Show the key with which the server signs imported versions."""
    context = context_of(typer_context)
    signing = context.client.get(at("signing"))
    if to is not None and not signing["public_key"]:
        context.show(signing)
        raise CommandFailed(f"{to} is not written: the server has no signing key.", Exit.FAILED)
    if to is not None:
        write_text(to, signing["public_key"])
    context.show(signing)
    if signing["fault"]:
        raise CommandFailed(f"Versions are not signed: {signing['fault']}", Exit.FAILED)
    context.say(
        f"Signed with key {signing['fingerprint']}"
        if signing["signs"]
        else "Versions are not signed: no signing key is configured."
    )


@app.command("policy")
def policy(typer_context: typer.Context, team: str) -> None:
    """Show the signature policy of a team."""
    context = context_of(typer_context)
    try:
        found = context.client.get(at("signature-policies", team))
    except ServerRefused as refused:
        if refused.status != 404:
            raise
        # No team is a 404 here, too.
        context.client.get(at("teams", team))
        unsaid = {"reason": "", "changed_at": None, "changed_by": ""}
        found = {"team": team, "demand": SignatureDemandOption.OFF.value, **unsaid}
    _tell_policy(context, found)


@app.command("set-policy")
@app.command("demand", hidden=True)
def demand(
    typer_context: typer.Context,
    team: str,
    what: Annotated[
        SignatureDemandOption,
        typer.Argument(
            help="For versions without a trusted signature: off allows, warn warns, require refuses."
        ),
    ],
    reason: RequiredReason = "",
) -> None:
    """Set the signature policy of a team."""
    context = context_of(typer_context)
    body = {"demand": what.value, "reason": reason}
    _tell_policy(context, context.client.put(at("signature-policies", team), body))


@app.command("keys")
def keys(
    typer_context: typer.Context,
    team: OnlyTeam = "",
    removed: Annotated[bool, typer.Option("--all", help="Removed keys, too.")] = False,
) -> None:
    """List trusted signing keys."""
    context = context_of(typer_context)
    context.each(at("trusted-keys"), KEY_COLUMNS, team=team, in_force="" if removed else "true")


@app.command("trust")
def trust(
    typer_context: typer.Context,
    team: str,
    name: Annotated[str, typer.Argument(help="Name of the key.")],
    file: Annotated[Path, typer.Argument(help="Public key in PEM format: P-256, P-384 or P-521.")],
    reason: RequiredReason = "",
) -> None:
    """Add a trusted signing key."""
    context = context_of(typer_context)
    pem = text_of(file, named="PEM file")
    if "PRIVATE KEY" in pem:
        raise CommandFailed(
            f"{file} contains a private key; it was not sent. Give the public key: openssl pkey -pubout.",
            Exit.USAGE,
        )
    body = {"team": team, "name": name, "pem": pem, "reason": reason}
    key = context.client.create(at("trusted-keys"), body)
    context.tell(key, f"Key {key['id']}: {team} trusts {name} ({key['fingerprint']})")


@app.command("distrust")
@confirmed("Remove key {number}? Versions that it alone signed are no longer trusted.")
def distrust(typer_context: typer.Context, number: Number, reason: RequiredReason = "") -> None:
    """Remove a trusted signing key; running workers are not affected."""
    context = context_of(typer_context)
    body = {"reason": reason}
    key = context.client.create(at("trusted-keys", number, "remove"), body)
    context.tell(key, f"{key['team']} no longer trusts {key['name']}.")


def _tell_policy(context: CliContext, found: Document) -> None:
    context.show(found)
    said = f" (set by {found['changed_by']}: {found['reason']})" if found["changed_by"] else ""
    context.say(f"{found['team']}: {found['demand']}{said}")
