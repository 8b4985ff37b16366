"""`slipway models export`: a version becomes a commit of a repository, or a version on another Slipway."""

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
    repository: Annotated[
        str, typer.Argument(help="org/name, org/name@branch, or with --kind slipway the model's name there.")
    ],
    kind: Annotated[
        str, typer.Option("--kind", help="huggingface (a repository) or slipway (another Slipway).")
    ] = "huggingface",
    endpoint: Annotated[
        str, typer.Option("--endpoint", help="Where that is; empty: the server's default for exports.")
    ] = "",
    create: Annotated[bool, typer.Option("--create", help="Make what is missing there.")] = False,
    public: Annotated[bool, typer.Option("--public", help="With --create: everybody may read it.")] = False,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", help="Only files that match; may be repeated.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Leave out files that match; may be repeated.")
    ] = None,
    hub_token_file: Annotated[
        Path | None,
        typer.Option("--hub-token-file", help="File with a token that may write there."),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why it is published; asked for when it is missing.")
    ] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is over.")] = True,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds to wait at most.")] = 3600,
) -> None:
    """Publish a version elsewhere; exit 0 when it is held there, 1 when it is not.

    Asked again, it joins the export that runs, resumes one that was paused or interrupted, or looks whether
    the version is there already.
    """
    context = context_of(typer_context)
    model, name = split_version(version)
    repo_id, _, branch = repository.removeprefix("hf://").partition("@")
    document = _open_one(context, model, name, (kind, repo_id, branch), endpoint)
    if document is None:
        body: dict[str, Any] = {
            "model": model,
            "version": name,
            "repo_id": repo_id,
            "kind": kind,
        }
        body |= {"create": create, "private": not public, "reason": context.asked_for(reason)}
        given = {
            "branch": branch,
            "endpoint": endpoint,
            "allow_patterns": allow,
            "ignore_patterns": ignore,
            "token": secret_of(hub_token_file),
        }
        document = context.client.create("exports/", body | {key: one for key, one in given.items() if one})
    elif document["state"] in ("paused", "interrupted"):
        document = context.client.post(f"exports/{document['id']}/resume/", {})
    place = f"{repo_id}@{document['branch']}".removesuffix("@")
    named = f"The export of {version} to {place}"
    if wait:
        path = f"exports/{document['id']}/"
        document = wait_until_over(context, document, Deadline(timeout), path=path, named=named, going=OPEN)
    context.show(document)
    if wait and document["state"] != "done":
        raise CommandFailed(f"{named} is {document['state']}. {document['reason']}", Exit.FAILED)
    held = f" {document['commit']}, {size(document['progress']['bytes_total'])}" if document["commit"] else ""
    context.say(f"{place} {document['state']}{held}")


def _open_one(
    context: Context, model: str, version: str, place: tuple[str, str, str], endpoint: str
) -> Document | None:
    """The export of the version to there (kind, repository or model, branch) that is not over."""
    kind, repo_id, branch = place
    wanted = (kind, repo_id, branch or ("main" if kind == "huggingface" else ""))
    for state in OPEN:
        for one in context.client.each("exports/", model=model, version=version, state=state):
            is_there = not endpoint or one["endpoint"] == endpoint.rstrip("/")
            if is_there and (one["kind"], one["repo_id"], one["branch"]) == wanted:
                return one
    return None
