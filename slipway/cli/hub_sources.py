"""`slipway source`: the repositories on hubs that models follow."""

from typing import Annotated, Any

import typer

from slipway.cli.context import Context, context_of, secret_of
from slipway.cli.options import Allow, HubTokenFile, Ignore, Number, OnlyModel, Reason, Yes
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Repositories on hubs that models follow.", no_args_is_help=True)

Every = Annotated[int | None, typer.Option("--every", help="Look for a new commit so often, in seconds.")]
ReleaseTo = Annotated[
    str, typer.Option("--release-to", help="Service that gets every new version by a release, in your name.")
]
Plan = Annotated[
    str | None,
    typer.Option("--plan", help="Of those releases; empty: the service's own.", show_default=False),
]


@app.command("list")
def list_sources(typer_context: typer.Context, model: OnlyModel = "") -> None:
    """What models follow, and how the last sync of each went."""
    context = context_of(typer_context)
    rows = list(context.client.each(at("hub-sources"), model=model))
    context.show(rows)
    context.table(
        ("ID", "MODEL", "REPOSITORY", "HUB", "EVERY", "RELEASES TO", "LAST SYNC", "VERSION"),
        (
            (
                row["id"],
                row["model"],
                f"{row['repo_id']}@{row['revision']}",
                row["endpoint"],
                _often(row),
                f"{row['release_to']} {row['release_plan']}".strip(),
                "stuck" if row["stuck"] else (row["last_sync"] or {}).get("state", "never"),
                (row["last_sync"] or {}).get("version"),
            )
            for row in rows
        ),
    )


@app.command("places")
def places(typer_context: typer.Context) -> None:
    """Where `models import` and `follow` may read from: import roots of the server, and hubs."""
    context = context_of(typer_context)
    found = context.client.get(at("import-places"))
    context.show(found)
    named = [("directory", one) for one in found["directories"]] + [("hub", one) for one in found["hubs"]]
    context.table(("KIND", "PLACE"), named)


@app.command("show")
def show(typer_context: typer.Context, number: Number) -> None:
    """One source."""
    context = context_of(typer_context)
    _tell(context, context.client.get(at("hub-sources", number)))


@app.command("follow")
def follow(
    typer_context: typer.Context,
    model: Annotated[str, typer.Argument(help="Model that gets the versions.")],
    repository: Annotated[str, typer.Argument(help="org/name or org/name@revision.")],
    endpoint: Annotated[
        str, typer.Option("--endpoint", help="Address of the hub; empty: the server's default hub.")
    ] = "",
    kind: Annotated[
        str, typer.Option("--kind", help="Protocol that the hub speaks: huggingface or modelscope.")
    ] = "huggingface",
    every: Every = None,
    allow: Allow = None,
    ignore: Ignore = None,
    hub_token_file: HubTokenFile = None,
    release_to: ReleaseTo = "",
    plan: Plan = None,
) -> None:
    """Follow a repository; with --every at once and then so often, else when `models sync` asks for it."""
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
    no_schedule: Annotated[bool, typer.Option("--no-schedule", help="Only when asked for.")] = False,
    allow: Allow = None,
    ignore: Ignore = None,
    all_files: Annotated[bool, typer.Option("--all-files", help="Forget both kinds of patterns.")] = False,
    hub_token_file: HubTokenFile = None,
    forget_token: Annotated[bool, typer.Option("--forget-token", help="The repository is open.")] = False,
    release_to: ReleaseTo = "",
    register_only: Annotated[
        bool, typer.Option("--register-only", help="Release new versions nowhere.")
    ] = False,
    plan: Plan = None,
) -> None:
    """Change what is given; all else stays, hub and repository for good."""
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
            raise CommandFailed(f"{flag} takes back what another option gives. Leave one out.", Exit.USAGE)
        body |= cleared if is_said else {}
    if not body:
        raise CommandFailed("Say what to change, such as --every 3600. See --help.", Exit.USAGE)
    _tell(context, context.client.patch(at("hub-sources", number), body))


@app.command("unfollow")
def unfollow(typer_context: typer.Context, number: Number, reason: Reason = "", yes: Yes = False) -> None:
    """Follow a repository no longer: its schedule ends, its token is forgotten, its versions stay."""
    context = context_of(typer_context)
    source = context.client.get(at("hub-sources", number))
    context.confirm(f"Follow {_repository(source)} no longer?", yes=yes)
    context.client.delete(at("hub-sources", number), reason=context.asked_for(reason))
    context.show({"id": number, "deleted": True})
    context.say(f"{source['model']} follows {_repository(source)} no longer.")


@app.command("notice-secret")
def notice_secret(typer_context: typer.Context, number: Number, yes: Yes = False) -> None:
    """Make the secret by which a webhook of the hub asks for a sync; it is shown once, with the address."""
    context = context_of(typer_context)
    source = context.client.get(at("hub-sources", number))
    if source["takes_notices"]:
        context.confirm("The secret made before will hold no longer. Make a new one?", yes=yes)
    # No retry under an idempotency key: a secret is never told twice.
    made = context.client.post(at("hub-sources", number, "notice-secret"), {})
    context.show(made)
    context.say(f"Address of the webhook: {made['address']}")
    context.say_secret(f"Secret, shown this once: {made['secret']}")


def _present(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value not in (None, "", [])}


def _tell(context: Context, source: Document) -> None:
    context.show(source)
    told = {
        "source": source["id"],
        "model": source["model"],
        "repository": _repository(source),
        "hub": f"{source['endpoint']} ({source['kind']})",
        "token": "stored" if source["has_token"] else "none",
        "only": " ".join(source["allow_patterns"]),
        "without": " ".join(source["ignore_patterns"]),
        "synced": _often(source),
        "next": source["due_at"],
        "releases to": f"{source['release_to']} {source['release_plan']}".rstrip(),
        "last sync": (source["last_sync"] or {}).get("state", "never"),
        "stuck": source["stuck"],
    }
    context.table(("", ""), ((key, value) for key, value in told.items() if value))


def _repository(source: Document) -> str:
    return f"{source['repo_id']}@{source['revision']}"


def _often(source: Document) -> str:
    often = f"every {source['every']} s" if source["every"] else "when asked for"
    return f"{often}, or when the hub says so" if source["takes_notices"] else often
