"""`slipway source`: the repositories on hubs that models follow."""

from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of, secret_of
from slipway.cli.options import Allow, HubTokenFile, Ignore, Number, OnlyModel, Reason
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Sources: repositories on hubs that models follow.", no_args_is_help=True)

Every = Annotated[int | None, typer.Option("--every", help="Check interval for new commits, in seconds.")]
ReleaseTo = Annotated[
    str, typer.Option("--release-to", help="Service to which every new version is released, in your name.")
]
Plan = Annotated[
    str | None,
    typer.Option("--plan", help="Plan of those releases; empty: the service's.", show_default=False),
]


COLUMNS: Columns = {
    "ID": "id",
    "MODEL": "model",
    "REPOSITORY": lambda row: f"{row['repo_id']}@{row['revision']}",
    "CHECKED": lambda row: _often(row),
    "RELEASES TO": lambda row: f"{row['release_to']} {row['release_plan']}".strip(),
    "LAST SYNC": lambda row: "stuck" if row["stuck"] else (row["last_sync"] or {}).get("state", "never"),
    "VERSION": lambda row: (row["last_sync"] or {}).get("version"),
    "HUB": "endpoint",
}


@app.command("list")
def list_sources(typer_context: typer.Context, model: OnlyModel = "") -> None:
    """List the followed repositories with the state of their last sync."""
    context = context_of(typer_context)
    context.each(at("hub-sources"), COLUMNS, model=model)


@app.command("places")
def places(typer_context: typer.Context) -> None:
    """List where `models import` and `follow` can read from: import roots of the server, and hubs."""
    context = context_of(typer_context)
    found = context.client.get(at("import-places"))
    context.show(found)
    named = [("directory", one) for one in found["directories"]] + [("hub", one) for one in found["hubs"]]
    context.table(("KIND", "PLACE"), named)


@app.command("show")
def show(typer_context: typer.Context, number: Number) -> None:
    """Show a source."""
    context = context_of(typer_context)
    _tell(context, context.client.get(at("hub-sources", number)))


@app.command("follow")
def follow(
    typer_context: typer.Context,
    model: Annotated[str, typer.Argument(help="Model that gets the versions.")],
    repository: Annotated[str, typer.Argument(help="org/name or org/name@revision.")],
    endpoint: Annotated[
        str, typer.Option("--endpoint", help="URL of the hub; default: the server's default hub.")
    ] = "",
    kind: Annotated[str, typer.Option("--kind", help="Hub API: huggingface or modelscope.")] = "huggingface",
    every: Every = None,
    allow: Allow = None,
    ignore: Ignore = None,
    hub_token_file: HubTokenFile = None,
    release_to: ReleaseTo = "",
    plan: Plan = None,
) -> None:
    """Follow a repository: sync it now and at every check interval, or, without --every, only on request."""
    context = context_of(typer_context)
    repo_id, _, revision = repository.removeprefix("hf://").partition("@")
    body = {"model": model, "repo_id": repo_id, "endpoint": endpoint, "kind": kind}
    body |= {"revision": revision} if revision else {}
    given = {
        "every": every,
        "allow_patterns": allow,
        "ignore_patterns": ignore,
        "token": secret_of(hub_token_file, option="--hub-token-file"),
        "release_to": release_to,
        "release_plan": plan,
    }
    _tell(context, context.client.create(at("hub-sources"), body | _present(given)))


@app.command("edit")
def edit(
    typer_context: typer.Context,
    number: Number,
    revision: Annotated[str, typer.Option("--revision", help="Follow this branch, tag or commit.")] = "",
    every: Every = None,
    no_schedule: Annotated[bool, typer.Option("--no-schedule", help="Sync only on request.")] = False,
    allow: Allow = None,
    ignore: Ignore = None,
    all_files: Annotated[bool, typer.Option("--all-files", help="Remove both kinds of patterns.")] = False,
    hub_token_file: HubTokenFile = None,
    forget_token: Annotated[bool, typer.Option("--forget-token", help="Remove the stored token.")] = False,
    release_to: ReleaseTo = "",
    register_only: Annotated[
        bool, typer.Option("--register-only", help="Do not release new versions.")
    ] = False,
    plan: Plan = None,
) -> None:
    """Change the options given; hub and repository cannot be changed."""
    context = context_of(typer_context)
    given = {
        "revision": revision,
        "every": every,
        "allow_patterns": allow,
        "ignore_patterns": ignore,
        "token": secret_of(hub_token_file, option="--hub-token-file"),
        "release_to": release_to,
    }
    body = _present(given) | ({} if plan is None else {"release_plan": plan})
    for flag, is_said, cleared in (
        ("--no-schedule", no_schedule, {"every": None}),
        ("--all-files", all_files, {"allow_patterns": [], "ignore_patterns": []}),
        ("--forget-token", forget_token, {"token": ""}),
        ("--register-only", register_only, {"release_to": "", "release_plan": ""}),
    ):
        if is_said and not body.keys().isdisjoint(cleared):
            raise CommandFailed(f"{flag} conflicts with another option. Leave one out.", Exit.USAGE)
        body |= cleared if is_said else {}
    if not body:
        raise CommandFailed("Nothing to change: give an option such as --every 3600. See --help.", Exit.USAGE)
    _tell(context, context.client.patch(at("hub-sources", number), body))


def _removal(context: CliContext, given: dict[str, Any]) -> str:
    source = context.client.get(at("hub-sources", given["number"]))
    return f"Remove the source {_repository(source)}?"


@app.command("unfollow")
@confirmed(_removal)
def unfollow(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Remove a source: no more syncs, its token is deleted, its versions are kept."""
    context = context_of(typer_context)
    source = context.client.get(at("hub-sources", number))
    context.client.delete(at("hub-sources", number), reason=reason)
    context.tell(
        {"id": number, "deleted": True}, f"{source['model']} no longer follows {_repository(source)}."
    )


def _replacement(context: CliContext, given: dict[str, Any]) -> str:
    source = context.client.get(at("hub-sources", given["number"]))
    return "The previous secret will stop working. Create a new one?" if source["takes_notices"] else ""


@app.command("webhook-secret")
@app.command("notice-secret", hidden=True)
@confirmed(_replacement)
def notice_secret(typer_context: typer.Context, number: Number) -> None:
    """Create the secret for the hub's webhook that triggers syncs; shown once, with the URL."""
    context = context_of(typer_context)
    # No retry under an idempotency key: a secret is never told twice.
    made = context.client.post(at("hub-sources", number, "notice-secret"), {})
    context.tell(made, f"Webhook URL: {made['address']}")
    context.say_secret(f"Secret, shown only once: {made['secret']}")


def _present(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value not in (None, "", [])}


def _tell(context: CliContext, source: Document) -> None:
    context.show(source)
    told = {
        "source": source["id"],
        "model": source["model"],
        "repository": _repository(source),
        "hub": f"{source['endpoint']} ({source['kind']})",
        "token": "stored" if source["has_token"] else "none",
        "include": " ".join(source["allow_patterns"]),
        "exclude": " ".join(source["ignore_patterns"]),
        "checked": _often(source),
        "next check": source["due_at"],
        "releases to": f"{source['release_to']} {source['release_plan']}".rstrip(),
        "last sync": (source["last_sync"] or {}).get("state", "never"),
        "stuck": source["stuck"],
    }
    context.details(told)


def _repository(source: Document) -> str:
    return f"{source['repo_id']}@{source['revision']}"


def _often(source: Document) -> str:
    often = f"every {source['every']} s" if source["every"] else "on request"
    return f"{often} and by webhook" if source["takes_notices"] else often
