import json
from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli import retention
from slipway.cli.context import Context, context_of, flag, size
from slipway.cli.evaluations import compare, evaluate, figures
from slipway.cli.exports import export
from slipway.cli.files import write_text
from slipway.cli.importing import import_version
from slipway.cli.model_changes import create, delete, edit
from slipway.cli.names import split_version
from slipway.cli.options import VersionLabel
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
app.command("figures")(figures)
app.command("compare")(compare)
app.add_typer(retention.app, name="retention")
app.command("export")(export)


@app.command("list")
def list_models(
    typer_context: typer.Context,
    query: Annotated[str, typer.Option("--search", "-q", help="Part of a name, a task, an alias.")] = "",
    team: Annotated[str, typer.Option("--team", help="Its owner.")] = "",
    task: Annotated[str, typer.Option("--task", help="What its task begins with.")] = "",
    tag: Annotated[str, typer.Option("--tag", help="A tag of a ready version.")] = "",
    alias: Annotated[str, typer.Option("--alias", help="What an alias begins with.")] = "",
    architecture: Annotated[str, typer.Option("--architecture", help="What it begins with.")] = "",
    format: Annotated[str, typer.Option("--format", help="safetensors, gguf or onnx.")] = "",
    parameters_min: Annotated[str, typer.Option("--parameters-min", help="Such as 7B.")] = "",
    parameters_max: Annotated[str, typer.Option("--parameters-max", help="Such as 70B.")] = "",
    created_by: Annotated[str, typer.Option("--created-by", help="What the name begins with.")] = "",
    served: Annotated[
        bool | None, typer.Option("--served/--not-served", help="Whether any version is in use.")
    ] = None,
    versions: Annotated[str, typer.Option("--versions", help="With one in this state, such as failed.")] = "",
) -> None:
    """The models that you may see."""
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
    rows = list(context.client.each(at("models"), **wanted))
    context.show(rows)
    context.table(
        ("MODEL", "TASK", "LATEST", "SIZE", "ALIASES"),
        (
            (
                row["name"],
                row.get("task"),
                (row.get("latest_version") or {}).get("name"),
                size((row.get("latest_version") or {}).get("size_bytes")),
                ", ".join(f"{alias['name']}={alias['version']}" for alias in row.get("aliases", ())),
            )
            for row in rows
        ),
    )


@app.command("show")
def show(
    typer_context: typer.Context, model: Annotated[str, typer.Argument(metavar="MODEL[:VERSION]")]
) -> None:
    """One model and its versions, newest first; or all that is known of one version."""
    context = context_of(typer_context)
    if ":" in model:
        show_version(context, model)
        return
    document = context.client.get(at("models", model))
    document["versions"] = list(context.client.each(at("models", model, "versions")))
    context.show(document)
    context.say(f"{document['name']}: {document.get('description') or document.get('task') or ''}")
    context.table(
        ("VERSION", "STATE", "SIZE", "DIGEST", "MESSAGE"),
        (
            (v["name"], v["state"], size(v.get("size_bytes")), (v.get("digest") or "")[:12], v.get("message"))
            for v in document["versions"]
        ),
    )


@app.command("archive")
def archive(
    typer_context: typer.Context,
    version: VersionLabel,
    reason: Annotated[str, typer.Option("--reason", help="Why; asked for when it is missing.")] = "",
) -> None:
    """Set a version aside: lists leave it out and nothing may name it; its files stay."""
    context = context_of(typer_context)
    _move(context, version, "archive", {"reason": context.asked_for(reason)})


@app.command("restore")
def restore(
    typer_context: typer.Context,
    version: VersionLabel,
    reason: Annotated[str, typer.Option("--reason", help="Why.")] = "",
) -> None:
    """Make an archived version ready again."""
    _move(context_of(typer_context), version, "restore", {"reason": reason})


@app.command("tag")
def tag(
    typer_context: typer.Context,
    version: VersionLabel,
    add: Annotated[list[str] | None, typer.Option("--add", "-a", help="Put on; repeatable.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", "-r", help="Take away; repeatable.")] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why.")] = "",
) -> None:
    """Put tags on a version, and take others away."""
    body = {"add": add or [], "remove": remove or [], "reason": reason}
    _move(context_of(typer_context), version, "tags", body)


@app.command("signature")
def signature(
    typer_context: typer.Context,
    version: VersionLabel,
    to: Annotated[Path, typer.Option("--to", help="File that the signature is written to.")],
    origin: Annotated[
        str, typer.Option("--origin", help="`files`: the one that came with them; `slipway`: its own.")
    ] = "",
) -> None:
    """Fetch the signature of a version, for `model_signing verify key` to verify a copy of its files."""
    context = context_of(typer_context)
    model, name = split_version(version)
    asked = {"origin": origin} if origin else {}
    bundle = context.client.get(at("models", model, "versions", name, "signature"), **asked)
    write_text(to, json.dumps(bundle))
    context.show(bundle)
    context.say(f"The signature of {version} is in {to}.")


def _move(context: Context, label: str, verb: str, body: dict[str, Any]) -> None:
    model, name = split_version(label)
    version = context.client.post(at("models", model, "versions", name, verb), body)
    context.show(version)
    context.say(f"{model}:{version['name']} {version['state']} {' '.join(version['tags'])}".rstrip())
