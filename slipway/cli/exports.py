"""`slipway models export`: a version becomes one commit of a repository on a hub."""

from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli.context import Context, context_of, size
from slipway.cli.names import split_version
from slipway.cli.transfers import secret_of, wait_until_over
from slipway.cli.waiting import Deadline
from slipway.client import Document
from slipway.exits import CommandFailed, Exit

OPEN = ("sending", "paused", "interrupted")


def export(
    typer_context: typer.Context,
    version: Annotated[str, typer.Argument(metavar="MODEL:VERSION")],
    repository: Annotated[str, typer.Argument(help="org/name or org/name@branch.")],
    endpoint: Annotated[
        str, typer.Option("--endpoint", help="Address of the hub; empty: the server's default for exports.")
    ] = "",
    create: Annotated[
        bool, typer.Option("--create", help="Make the repository or branch if it is missing.")
    ] = False,
    public: Annotated[bool, typer.Option("--public", help="With --create: everybody may read it.")] = False,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", help="Only files that match; may be repeated.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Leave out files that match; may be repeated.")
    ] = None,
    hub_token_file: Annotated[
        Path | None,
        typer.Option("--hub-token-file", help="File with a token of the hub that may write there."),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why it is published; asked for when it is missing.")
    ] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is over.")] = True,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds to wait at most.")] = 3600,
) -> None:
    """Publish a version as one commit; exit 0 when the repository holds it, 1 when it does not.

    Asked again, it joins the export that runs, resumes one that was paused or interrupted, or looks whether
    the repository holds the version already.
    """
    context = context_of(typer_context)
    model, name = split_version(version)
    repo_id, _, branch = repository.removeprefix("hf://").partition("@")
    document = _open_one(context, model, name, repo_id, branch or "main", endpoint)
    if document is None:
        body: dict[str, Any] = {
            "model": model,
            "version": name,
            "repo_id": repo_id,
            "branch": branch or "main",
        }
        body |= {"create": create, "private": not public, "reason": context.asked_for(reason)}
        given = {
            "endpoint": endpoint,
            "allow_patterns": allow,
            "ignore_patterns": ignore,
            "token": secret_of(hub_token_file),
        }
        document = context.client.create("exports/", body | {key: one for key, one in given.items() if one})
    elif document["state"] in ("paused", "interrupted"):
        document = context.client.post(f"exports/{document['id']}/resume/", {})
    named = f"The export of {version} to {repo_id}@{document['branch']}"
    if wait:
        path = f"exports/{document['id']}/"
        document = wait_until_over(context, document, Deadline(timeout), path=path, named=named, going=OPEN)
    context.show(document)
    if wait and document["state"] != "done":
        raise CommandFailed(f"{named} is {document['state']}. {document['reason']}", Exit.FAILED)
    held = f" {document['commit']}, {size(document['progress']['bytes_total'])}" if document["commit"] else ""
    context.say(f"{repo_id}@{document['branch']} {document['state']}{held}")


def _open_one(
    context: Context, model: str, version: str, repo_id: str, branch: str, endpoint: str
) -> Document | None:
    """The export of the version to there that is not over."""
    for state in OPEN:
        for one in context.client.each("exports/", model=model, version=version, state=state):
            if (one["repo_id"], one["branch"]) == (repo_id, branch) and (
                not endpoint or one["endpoint"] == endpoint.rstrip("/")
            ):
                return one
    return None
