"""`slipway models sync`: a version from a repository on a hub; an unfinished sync is resumed."""

from typing import Annotated, Any

import typer

from slipway.cli.context import CliContext, context_of, secret_of, size
from slipway.cli.options import Allow, HubTokenFile, Ignore, Timeout, Wait
from slipway.cli.transfers import HALTED, follow
from slipway.client import Document, ServerRefused, at
from slipway.exits import CommandFailed, Exit

OPEN = ("resolving", "fetching", *HALTED)
DONE = ("done", "current")
DEFAULT_BRANCHES = {"huggingface": "main", "modelscope": "master"}


def sync(
    typer_context: typer.Context,
    model: Annotated[str, typer.Argument(help="Model that gets the version.")],
    repository: Annotated[
        str,
        typer.Argument(help="org/name or org/name@revision; optional if the model follows exactly one."),
    ] = "",
    endpoint: Annotated[
        str, typer.Option("--endpoint", help="URL of the hub; default: the server's default hub.")
    ] = "",
    kind: Annotated[str, typer.Option("--kind", help="Hub API: huggingface or modelscope.")] = "huggingface",
    every: Annotated[
        int | None, typer.Option("--every", help="Check interval for new commits from now on, in seconds.")
    ] = None,
    allow: Allow = None,
    ignore: Ignore = None,
    hub_token_file: HubTokenFile = None,
    wait: Wait = True,
    timeout: Timeout = 3600,
) -> None:
    """Follow a repository and sync it now; exit 0 when its commit is a ready version, 1 when it is not.

    Run again, it follows the running sync, resumes a paused or interrupted one, or starts another.
    """
    context = context_of(typer_context)
    told = {
        "every": every,
        "allow_patterns": allow,
        "ignore_patterns": ignore,
        "token": secret_of(hub_token_file, option="--hub-token-file"),
    }
    given = {name: value for name, value in told.items() if value}
    document = _begun(context, _source(context, model, repository, given, endpoint=endpoint, kind=kind))
    if wait:
        address, named = at("hub-syncs", document["id"]), f"The sync of {document['repository']}"
        document = follow(
            context, document, address=address, named=named, going=OPEN, done=DONE, timeout=timeout
        )
    context.tell(document, _told(document))
    if document["reason"]:
        # Also what became of the release that was to follow.
        context.say(document["reason"])


def _source(
    context: CliContext, model: str, repository: str, given: dict[str, Any], *, endpoint: str, kind: str
) -> Document:
    """The model's source of that repository, with what was given; made if there is none."""
    repo_id, _, revision = repository.removeprefix("hf://").partition("@")
    followed = [
        source
        for source in context.client.each(at("hub-sources"), model=model)
        if (
            not repo_id
            or (source["repo_id"], source["revision"])
            == (repo_id, revision or DEFAULT_BRANCHES[source["kind"]])
        )
        and (not endpoint or source["endpoint"] == endpoint.rstrip("/"))
    ]
    if len(followed) > 1:
        named = ", ".join(f"{one['repo_id']}@{one['revision']} on {one['endpoint']}" for one in followed)
        raise CommandFailed(f"{model} follows several repositories; name one of: {named}.", Exit.USAGE)
    if followed:
        address = at("hub-sources", followed[0]["id"])
        return context.client.patch(address, given) if given else followed[0]
    if not repo_id:
        raise CommandFailed(f"{model} follows no repository. Give one, such as acme/tiny.", Exit.USAGE)
    body = {"model": model, "repo_id": repo_id, "endpoint": endpoint, "kind": kind}
    return context.client.create(
        at("hub-sources"), body | ({"revision": revision} if revision else {}) | given
    )


def _begun(context: CliContext, source: Document) -> Document:
    if not _is_open(source["last_sync"]):
        try:
            return context.client.create(at("hub-sources", source["id"], "sync"), {})
        except ServerRefused as refused:
            source = context.client.get(at("hub-sources", source["id"]))
            if refused.status != 409 or not _is_open(source["last_sync"]):
                raise
            # The schedule was faster.
    last = source["last_sync"]
    if last["state"] in HALTED:
        return context.client.post(at("hub-syncs", last["id"], "resume"), {})
    return context.client.get(at("hub-syncs", last["id"]))


def _is_open(sync: Document | None) -> bool:
    return sync is not None and sync["state"] in OPEN


def _told(document: Document) -> str:
    progress = document["progress"] or {}
    told = f"{document['repository']} {document['state']}"
    if document["state"] in DONE:
        told += f": {document['model']}:{document['version']}, {size(progress.get('bytes_total'))}"
    return told
