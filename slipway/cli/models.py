import json
from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli.context import Context, context_of, size
from slipway.cli.names import split_version
from slipway.cli.syncs import sync
from slipway.cli.waiting import POLL_SECONDS, Deadline, patiently, transfer_bar
from slipway.client import Refused
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Models and their versions.", no_args_is_help=True)
app.command("sync")(sync)


@app.command("push")
def push(
    typer_context: typer.Context,
    directory: Annotated[
        Path, typer.Argument(help="Directory in Hugging Face layout that the server may read.")
    ],
    model: Annotated[str, typer.Option("--model", "-m", help="Model that gets the version.")],
    name: Annotated[
        str, typer.Option("--version", help="Name of the version; empty: the next v-number.")
    ] = "",
    message: Annotated[str, typer.Option("--message", help="What is new in this version.")] = "",
    create: Annotated[bool, typer.Option("--create", help="Create the model if it is not there.")] = False,
    task: Annotated[str, typer.Option("--task", help="With --create: the model's task.")] = "text-generation",
    team: Annotated[str, typer.Option("--team", help="With --create: the team that will own it.")] = "",
    parent: Annotated[
        str, typer.Option("--parent", help="The version that it was made from: v2, or MODEL:v2.")
    ] = "",
    base_model: Annotated[
        str, typer.Option("--base-model", help="What it was tuned from: MODEL:v2, or hf://org/name@revision.")
    ] = "",
    job: Annotated[str, typer.Option("--job", help="Name or address of the job that made it.")] = "",
    data: Annotated[
        list[str] | None, typer.Option("--data", help="Name or address of data it learned from; repeatable.")
    ] = None,
    alias: Annotated[
        str, typer.Option("--alias", help="Point this alias at the version once it is ready.")
    ] = "",
    reason: Annotated[str, typer.Option("--reason", help="With --alias: why.")] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is ready or refused.")] = True,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds to wait at most.")] = 3600,
) -> None:
    """Make a version of a directory; exit 0 when it is ready, 1 when it is refused."""
    context = context_of(typer_context)
    if create:
        _ensure_model(context, model, task=task, team=team)
    body: dict[str, Any] = {"source": str(directory.absolute()), "message": message}
    told = {"parent": parent, "base_model": base_model, "job": job, "data": data}
    lineage = {key: value for key, value in told.items() if value}
    body |= ({"version": name} if name else {}) | ({"lineage": lineage} if lineage else {})
    version = context.client.create(f"models/{model}/versions/", body)
    if wait or alias:
        version = _wait_until_ready(context, model, version, Deadline(timeout))
    if alias:
        put = {"version": version["name"], "reason": reason or message or "Pushed from the command line."}
        context.client.put(f"models/{model}/aliases/{alias}/", put)
    context.show(version)
    context.say(f"{model}:{version['name']} {version['state']}, {size(version.get('size_bytes'))}")


@app.command("list")
def list_models(
    typer_context: typer.Context,
    query: Annotated[str, typer.Option("--search", "-q", help="Part of a name, a task, an alias.")] = "",
) -> None:
    """All models that you may see."""
    context = context_of(typer_context)
    rows = list(context.client.each("models/", q=query))
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
def show(typer_context: typer.Context, model: str) -> None:
    """One model and its versions, newest first."""
    context = context_of(typer_context)
    document = context.client.get(f"models/{model}/")
    document["versions"] = list(context.client.each(f"models/{model}/versions/"))
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
    version: Annotated[str, typer.Argument(metavar="MODEL:VERSION")],
    reason: Annotated[str, typer.Option("--reason", help="Why; asked for when it is missing.")] = "",
) -> None:
    """Set a version aside: lists leave it out and nothing may name it; its files stay."""
    context = context_of(typer_context)
    _move(context, version, "archive", {"reason": context.asked_for(reason)})


@app.command("restore")
def restore(
    typer_context: typer.Context,
    version: Annotated[str, typer.Argument(metavar="MODEL:VERSION")],
    reason: Annotated[str, typer.Option("--reason", help="Why.")] = "",
) -> None:
    """Make an archived version ready again."""
    _move(context_of(typer_context), version, "restore", {"reason": reason})


@app.command("tag")
def tag(
    typer_context: typer.Context,
    version: Annotated[str, typer.Argument(metavar="MODEL:VERSION")],
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
    version: Annotated[str, typer.Argument(metavar="MODEL:VERSION")],
    to: Annotated[Path, typer.Option("--to", help="File that the signature is written to.")],
    origin: Annotated[
        str, typer.Option("--origin", help="`files`: the one that came with them; `slipway`: its own.")
    ] = "",
) -> None:
    """Fetch the signature of a version, for `model_signing verify key` to verify a copy of its files."""
    context = context_of(typer_context)
    model, name = split_version(version)
    asked = {"origin": origin} if origin else {}
    bundle = context.client.get(f"models/{model}/versions/{name}/signature/", **asked)
    try:
        to.write_text(json.dumps(bundle))
    except OSError as error:
        raise CommandFailed(f"{to} cannot be written: {error.strerror}.", Exit.USAGE) from None
    context.show(bundle)
    context.say(f"The signature of {version} is in {to}.")


def _move(context: Context, label: str, verb: str, body: dict[str, Any]) -> None:
    model, name = split_version(label)
    version = context.client.post(f"models/{model}/versions/{name}/{verb}/", body)
    context.show(version)
    context.say(f"{model}:{version['name']} {version['state']} {' '.join(version['tags'])}".rstrip())


def _ensure_model(context: Context, model: str, *, task: str, team: str) -> None:
    try:
        context.client.get(f"models/{model}/")
    except Refused as refused:
        if refused.status != 404:
            raise
        body = {"name": model, "task": task} | ({"team": team} if team else {})
        context.client.create("models/", body)


def _wait_until_ready(
    context: Context, model: str, version: dict[str, Any], deadline: Deadline
) -> dict[str, Any]:
    path = f"models/{model}/versions/{version['name']}/"
    label = f"{model}:{version['name']}"
    sleep = context.outside.sleep
    with transfer_bar(context.progress) as bar:
        task = bar.add_task(label, total=None)
        said = ""
        while version["state"] == "importing":
            if deadline.is_over:
                context.show(version)
                raise CommandFailed(f"{label} is still importing.", Exit.TIMED_OUT)
            if version["stuck"] != said:
                said = version["stuck"]
                bar.console.print(f"The import of {label} is stuck: {said}", markup=False)
            sleep(POLL_SECONDS)
            version = patiently(lambda: context.client.get(path), deadline, sleep=sleep)
            progress = version["progress"]
            bar.update(task, completed=progress["bytes_done"], total=progress["bytes_total"])
    if version["state"] != "ready":
        context.show(version)
        raise CommandFailed(f"{label} is {version['state']}. {version['reason']}", Exit.FAILED)
    return version
