import json
from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli import retention
from slipway.cli.context import CliContext, Columns, context_of, flag, size
from slipway.cli.evaluations import compare, evaluate, metrics
from slipway.cli.files import write_text
from slipway.cli.importing import import_version
from slipway.cli.model_changes import create, delete, edit
from slipway.cli.names import split_version
from slipway.cli.nouns.export import export
from slipway.cli.options import Reason, VersionLabel
from slipway.cli.pushing import push
from slipway.cli.syncs import sync
from slipway.cli.versions import cancel, card, retry, show_version, verify, versions
from slipway.client import at

app = typer.Typer(help="Models and their versions.", no_args_is_help=True)
app.command("create")(create)
app.command("edit")(edit)
app.command("delete")(delete)
app.command("push")(push)
app.command("import")(import_version)
app.command("sync")(sync)
app.command("versions")(versions)
app.command("card")(card)
app.command("cancel")(cancel)
app.command("retry")(retry)
app.command("verify")(verify)
app.command("evaluate")(evaluate)
app.command("metrics")(metrics)
app.command("figures", hidden=True)(metrics)
app.command("compare")(compare)
app.add_typer(retention.app, name="retention")
app.command("export")(export)


COLUMNS: Columns = {
    "MODEL": "name",
    "TASK": "task",
    "LATEST": lambda row: (row.get("latest_version") or {}).get("name"),
    "SIZE": lambda row: size((row.get("latest_version") or {}).get("size_bytes")),
    "ALIASES": lambda row: ", ".join(
        f"{alias['name']}={alias['version']}" for alias in row.get("aliases", ())
    ),
}
VERSION_COLUMNS: Columns = {
    "VERSION": "name",
    "STATE": "state",
    "SIZE": lambda row: size(row.get("size_bytes")),
    "DIGEST": lambda row: (row.get("digest") or "")[:12],
    "MESSAGE": "message",
}


@app.command("list")
def list_models(
    typer_context: typer.Context,
    query: Annotated[str, typer.Option("--search", "-q", help="Part of a name, task or alias.")] = "",
    team: Annotated[str, typer.Option("--team", help="Owner.")] = "",
    task: Annotated[str, typer.Option("--task", help="Prefix of the task.")] = "",
    tag: Annotated[str, typer.Option("--tag", help="Tag of a ready version.")] = "",
    alias: Annotated[str, typer.Option("--alias", help="Prefix of an alias.")] = "",
    architecture: Annotated[str, typer.Option("--architecture", help="Prefix of the architecture.")] = "",
    format: Annotated[str, typer.Option("--format", help="safetensors, gguf or onnx.")] = "",
    parameters_min: Annotated[str, typer.Option("--parameters-min", help="Such as 7B.")] = "",
    parameters_max: Annotated[str, typer.Option("--parameters-max", help="Such as 70B.")] = "",
    created_by: Annotated[str, typer.Option("--created-by", help="Prefix of the creator's name.")] = "",
    served: Annotated[
        bool | None,
        typer.Option("--served/--not-served", help="Only models with, or without, a version in use."),
    ] = None,
    versions: Annotated[
        str, typer.Option("--versions", help="With a version in this state, such as failed.")
    ] = "",
) -> None:
    """List models."""
    context = context_of(typer_context)
    wanted = {
        "q": query,
        "team": team,
        "task": task,
        "tag": tag,
        "alias": alias,
        "architecture": architecture,
        "format": format,
        "parameters_min": parameters_min,
        "parameters_max": parameters_max,
        "created_by": created_by,
        "versions": versions,
        "served": flag(served),
    }
    context.each(at("models"), COLUMNS, **wanted)


@app.command("show")
def show(
    typer_context: typer.Context, model: Annotated[str, typer.Argument(metavar="MODEL[:VERSION]")]
) -> None:
    """Show a model with its versions, newest first; or one version in detail."""
    context = context_of(typer_context)
    if ":" in model:
        show_version(context, model)
        return
    document = context.client.get(at("models", model))
    document["versions"] = list(context.client.each(at("models", model, "versions")))
    context.tell(document, f"{document['name']}: {document.get('description') or document.get('task') or ''}")
    context.tabulate(document["versions"], VERSION_COLUMNS)


@app.command("archive")
def archive(
    typer_context: typer.Context,
    version: VersionLabel,
    reason: Reason = "",
) -> None:
    """Archive a version: it is hidden from lists and cannot be released; its files are kept."""
    context = context_of(typer_context)
    _move(context, version, "archive", {"reason": reason})


@app.command("restore")
def restore(
    typer_context: typer.Context,
    version: VersionLabel,
    reason: Reason = "",
) -> None:
    """Restore an archived version."""
    _move(context_of(typer_context), version, "restore", {"reason": reason})


@app.command("tag")
def tag(
    typer_context: typer.Context,
    version: VersionLabel,
    add: Annotated[list[str] | None, typer.Option("--add", "-a", help="Tag to add; repeatable.")] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", "-r", help="Tag to remove; repeatable.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Reason.")] = "",
) -> None:
    """Add and remove tags of a version."""
    body = {"add": add or [], "remove": remove or [], "reason": reason}
    _move(context_of(typer_context), version, "tags", body)


@app.command("signature")
def signature(
    typer_context: typer.Context,
    version: VersionLabel,
    to: Annotated[Path, typer.Option("--to", help="File to write the signature to.")],
    origin: Annotated[
        str, typer.Option("--origin", help="`files`: the signature among the files; `slipway`: the server's.")
    ] = "",
) -> None:
    """Download the signature of a version, as `model_signing verify key` reads it."""
    context = context_of(typer_context)
    model, name = split_version(version)
    asked = {"origin": origin} if origin else {}
    bundle = context.client.get(at("models", model, "versions", name, "signature"), **asked)
    write_text(to, json.dumps(bundle))
    context.tell(bundle, f"Signature of {version} written to {to}.")


def _move(context: CliContext, label: str, verb: str, body: dict[str, Any]) -> None:
    model, name = split_version(label)
    version = context.client.post(at("models", model, "versions", name, verb), body)
    context.tell(
        version, f"{model}:{version['name']} {version['state']} {' '.join(version['tags'])}".rstrip()
    )
