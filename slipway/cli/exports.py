"""`slipway models export`: a version becomes a commit of a repository, or a version on another Slipway."""

from pathlib import Path
from typing import Annotated

import typer

from slipway.cli.context import Context, context_of, secret_of, size
from slipway.cli.names import split_version
from slipway.cli.options import Allow, Ignore, Timeout, VersionLabel, Wait
from slipway.cli.transfers import HALTED, follow
from slipway.client import Document

OPEN = ("sending", *HALTED)


def export(
    typer_context: typer.Context,
    version: VersionLabel,
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
    allow: Allow = None,
    ignore: Ignore = None,
    hub_token_file: Annotated[
        Path | None,
        typer.Option("--hub-token-file", help="File with a token that may write there."),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why it is published; asked for when it is missing.")
    ] = "",
    wait: Wait = True,
    timeout: Timeout = 3600,
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
        body = {
            "model": model,
            "version": name,
            "repo_id": repo_id,
            "kind": kind,
            "create": create,
            "private": not public,
            "reason": context.asked_for(reason),
        }
        told = {
            "branch": branch,
            "endpoint": endpoint,
            "allow_patterns": allow,
            "ignore_patterns": ignore,
            "token": secret_of(hub_token_file, option="--hub-token-file"),
        }
        given = {name: value for name, value in told.items() if value}
        document = context.client.create("exports/", body | given)
    elif document["state"] in HALTED:
        document = context.client.post(f"exports/{document['id']}/resume/", {})
    place = f"{repo_id}@{document['branch']}".removesuffix("@")
    if wait:
        path, named = f"exports/{document['id']}/", f"The export of {version} to {place}"
        document = follow(
            context, document, path=path, named=named, going=OPEN, done=("done",), timeout=timeout
        )
    context.show(document)
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
