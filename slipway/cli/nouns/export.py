"""`slipway export` prints configuration as files; its verbs follow exports of versions to hubs."""

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from slipway.cli.context import CliContext, Columns, OutputFormat, context_of, counted, secret_of, size
from slipway.cli.files import make_directory, write_text
from slipway.cli.names import split_version
from slipway.cli.options import (
    Allow,
    Ignore,
    Limit,
    Number,
    OnlyModel,
    Reason,
    RequiredReason,
    States,
    Timeout,
    VersionLabel,
    Wait,
    WaitForEnd,
)
from slipway.cli.transfers import HALTED, add_verbs, follow, how_far, seen_through
from slipway.client import Document, at

OPEN = ("sending", *HALTED)

app = typer.Typer(invoke_without_command=True)


COLUMNS: Columns = {
    "ID": "id",
    "VERSION": lambda row: f"{row['model']}:{row['version']}",
    "DESTINATION": lambda row: _place(row),
    "STATE": lambda row: "stuck" if row["stuck"] else row["state"],
    "COMMIT": lambda row: row["commit"][:8],
    "BY": "author_name",
    "STARTED": "began_at",
    "ENDPOINT": "endpoint",
}


@app.callback()
def configuration(
    typer_context: typer.Context,
    kind: Annotated[str, typer.Option("--kind", help="Only of this kind: service.")] = "",
    team: Annotated[str, typer.Option("--team", help="Only of this team.")] = "",
    out: Annotated[
        Path | None, typer.Option("--out", help="Directory for one file per object; default: stdout.")
    ] = None,
) -> None:
    """Print services, plans, policies and freeze windows as YAML that `slipway apply` takes; the verbs below
    are about exports of versions, which `models export` starts."""
    if typer_context.invoked_subcommand is not None:
        return
    import yaml  # other commands are spared it

    context = context_of(typer_context)
    asked = {"kind": kind, "team": team}
    given = {name: value for name, value in asked.items() if value}
    documents = context.client.get(at("configuration", "export"), **given)["documents"]
    if context.output is OutputFormat.JSON:
        context.show(documents)
        return
    if out is None:
        sys.stdout.write(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True))
        return
    for document in documents:
        parts = (document["kind"], document["team"] or "all", document.get("name", ""))
        name = "-".join(quote(part, safe="") for part in parts if part)
        make_directory(out)
        write_text(out / f"{name}.yaml", yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    context.say(f"{counted(len(documents), 'file')} in {out}.")


def export(
    typer_context: typer.Context,
    version: VersionLabel,
    repository: Annotated[
        str, typer.Argument(help="org/name, org/name@branch, or with --kind slipway the target model.")
    ],
    kind: Annotated[
        str, typer.Option("--kind", help="huggingface (a repository) or slipway (another Slipway).")
    ] = "huggingface",
    endpoint: Annotated[
        str, typer.Option("--endpoint", help="URL of the destination; default: as the server is configured.")
    ] = "",
    create: Annotated[
        bool, typer.Option("--create", help="Create the repository, branch or model if missing.")
    ] = False,
    public: Annotated[
        bool, typer.Option("--public", help="With --create: make the repository public.")
    ] = False,
    allow: Allow = None,
    ignore: Ignore = None,
    hub_token_file: Annotated[
        Path | None,
        typer.Option("--hub-token-file", help="File with a token that has write access."),
    ] = None,
    reason: RequiredReason = "",
    wait: Wait = True,
    timeout: Timeout = 3600,
) -> None:
    """Export a version to a hub or another Slipway; exit 0 on success, 1 on failure.

    Run again, it follows the running export, resumes a paused or interrupted one, or finds that the version
    is there already.
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
            "reason": reason,
        }
        told = {
            "branch": branch,
            "endpoint": endpoint,
            "allow_patterns": allow,
            "ignore_patterns": ignore,
            "token": secret_of(hub_token_file, option="--hub-token-file"),
        }
        given = {name: value for name, value in told.items() if value}
        document = context.client.create(at("exports"), body | given)
    elif document["state"] in HALTED:
        document = context.client.post(at("exports", document["id"], "resume"), {})
    place = _place(document)
    if wait:
        address, named = at("exports", document["id"]), f"The export of {version} to {place}"
        document = follow(
            context, document, address=address, named=named, going=OPEN, done=("done",), timeout=timeout
        )
    context.show(document)
    held = f" {document['commit']}, {size(document['progress']['bytes_total'])}" if document["commit"] else ""
    context.say(f"{place} {document['state']}{held}")


def _open_one(
    context: CliContext, model: str, version: str, place: tuple[str, str, str], endpoint: str
) -> Document | None:
    """The export of the version to there (kind, repository or model, branch) that is not over."""
    kind, repo_id, branch = place
    wanted = (kind, repo_id, branch or ("main" if kind == "huggingface" else ""))
    for state in OPEN:
        for one in context.client.each(at("exports"), model=model, version=version, state=state):
            is_there = not endpoint or one["endpoint"] == endpoint.rstrip("/")
            if is_there and (one["kind"], one["repo_id"], one["branch"]) == wanted:
                return one
    return None


@app.command("list")
def list_exports(
    typer_context: typer.Context,
    model: OnlyModel = "",
    version: Annotated[str, typer.Option("--version", help="Only of versions of this name.")] = "",
    state: States = None,
    limit: Limit = 20,
) -> None:
    """List exports, newest first."""
    context = context_of(typer_context)
    asked = {"model": model, "version": version, "state": state}
    rows = context.client.get(at("exports"), limit=limit, **asked)["results"]
    context.rows(rows, COLUMNS)


@app.command("show")
def show(
    typer_context: typer.Context, number: Number, wait: WaitForEnd = False, timeout: Timeout = 3600
) -> None:
    """Show an export: its reason, its progress, and the commit it made."""
    context = context_of(typer_context)
    address = at("exports", number)
    document = context.client.get(address)
    if wait:
        going, done = ("sending",), ("done",)
        document = seen_through(context, document, address, timeout, noun="export", going=going, done=done)
    context.show(document)
    _say(context, document)


@app.command("retry")
def retry(
    typer_context: typer.Context,
    number: Number,
    hub_token_file: Annotated[
        Path | None,
        typer.Option("--hub-token-file", help="File with a token that replaces the stored one."),
    ] = None,
    reason: Reason = "",
) -> None:
    """Retry a failed or cancelled export, with another token if one is given."""
    context = context_of(typer_context)
    body = {"reason": reason} | (
        {"token": secret_of(hub_token_file, option="--hub-token-file")} if hub_token_file else {}
    )
    document = context.client.create(at("exports", number, "retry"), body)
    context.show(document)
    _say(context, document)


def _say(context: CliContext, document: Document) -> None:
    held = f": {document['commit']}" if document["commit"] else how_far(document["progress"])
    named = f"Export {document['id']} of {document['model']}:{document['version']} to {_place(document)}"
    context.say(f"{named} is {document['state']}{held}")
    if why := document["stuck"] or document["reason"]:
        context.say(why)


def _place(document: Document) -> str:
    return f"{document['repo_id']}@{document['branch']}".removesuffix("@")


add_verbs(
    app,
    at("exports"),
    {
        "pause": "Pause an export.",
        "resume": "Resume a paused or interrupted export.",
        "cancel": "Cancel an export; a commit already sent may still arrive.",
    },
    noun="export",
    tell=_say,
)
