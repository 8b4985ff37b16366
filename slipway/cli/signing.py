"""`slipway signing`: with what this installation signs, whom a team trusts, and what it demands."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from slipway.cli.context import Context, context_of
from slipway.cli.files import text_of, write_text
from slipway.cli.options import Number, OnlyTeam, Reason
from slipway.client import Document, Refused, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(
    help="Signatures of versions: the server's key, a team's trusted keys, what it demands.",
    no_args_is_help=True,
)


class Demand(StrEnum):
    OFF = "off"
    WARN = "warn"
    REQUIRE = "require"


@app.command("show")
def show(
    typer_context: typer.Context,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="File for the public key, as `model_signing verify key` takes it."),
    ] = None,
) -> None:
    """With what this installation signs every version that is imported."""
    context = context_of(typer_context)
    signing = context.client.get(at("signing"))
    if to is not None and not signing["public_key"]:
        context.show(signing)
        raise CommandFailed(f"{to} is not written: this installation signs with no key.", Exit.FAILED)
    if to is not None:
        write_text(to, signing["public_key"])
    context.show(signing)
    if signing["fault"]:
        raise CommandFailed(f"Nothing is signed: {signing['fault']}", Exit.FAILED)
    context.say(
        f"Signed with key {signing['fingerprint']}" if signing["signs"] else "Nothing is signed here."
    )


@app.command("policy")
def policy(typer_context: typer.Context, team: str) -> None:
    """What a team demands of the signatures of what is served."""
    context = context_of(typer_context)
    try:
        found = context.client.get(at("signature-policies", team))
    except Refused as refused:
        if refused.status != 404:
            raise
        # No team is a 404 here, too.
        context.client.get(at("teams", team))
        unsaid = {"reason": "", "changed_at": None, "changed_by": ""}
        found = {"team": team, "demand": Demand.OFF.value, **unsaid}
    _tell_policy(context, found)


@app.command("demand")
def demand(
    typer_context: typer.Context,
    team: str,
    what: Annotated[
        Demand,
        typer.Argument(help="Of a version without a trusted signature: off nothing, warn, require it."),
    ],
    reason: Reason = "",
) -> None:
    """Say what becomes of a team's versions without a trusted signature that are to be served."""
    context = context_of(typer_context)
    body = {"demand": what.value, "reason": context.asked_for(reason)}
    _tell_policy(context, context.client.put(at("signature-policies", team), body))


@app.command("keys")
def keys(
    typer_context: typer.Context,
    team: OnlyTeam = "",
    removed: Annotated[bool, typer.Option("--all", help="Those that count no more, too.")] = False,
) -> None:
    """Keys whose signatures teams take for good."""
    context = context_of(typer_context)
    rows = list(context.client.each(at("trusted-keys"), team=team, in_force="" if removed else "true"))
    context.show(rows)
    context.table(
        ("ID", "TEAM", "NAME", "FINGERPRINT", "SINCE", "BY", "WHY", "UNTIL"),
        (
            (
                row["id"],
                row["team"],
                row["name"],
                row["fingerprint"][:16],
                row["added_at"],
                row["added_by"],
                row["reason"],
                row["removed_at"],
            )
            for row in rows
        ),
    )


@app.command("trust")
def trust(
    typer_context: typer.Context,
    team: str,
    name: Annotated[str, typer.Argument(help="That people know the key by.")],
    file: Annotated[Path, typer.Argument(help="The public key in PEM: P-256, P-384 or P-521.")],
    reason: Reason = "",
) -> None:
    """Take the signatures of a key for good from now on."""
    context = context_of(typer_context)
    pem = text_of(file, named="PEM file")
    if "PRIVATE KEY" in pem:
        raise CommandFailed(
            f"{file} holds a private key, and was sent nowhere. Give the public one: openssl pkey -pubout.",
            Exit.USAGE,
        )
    body = {"team": team, "name": name, "pem": pem, "reason": context.asked_for(reason)}
    key = context.client.create(at("trusted-keys"), body)
    context.show(key)
    context.say(f"{team} trusts {name} ({key['fingerprint']}), key {key['id']}")


@app.command("distrust")
def distrust(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Take the signatures of a key for nothing from now on; what is served already goes on."""
    context = context_of(typer_context)
    body = {"reason": context.asked_for(reason)}
    key = context.client.create(at("trusted-keys", number, "remove"), body)
    context.show(key)
    context.say(f"{key['team']} trusts {key['name']} no longer.")


def _tell_policy(context: Context, found: Document) -> None:
    context.show(found)
    said = f", as {found['changed_by']} said: {found['reason']}" if found["changed_by"] else ""
    context.say(f"{found['team']}: {found['demand']}{said}")
