from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from slipway.cli.context import context_of
from slipway.cli.names import split_version
from slipway.client import at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(
    help="Services: an address behind the gateway, and the version that answers.", no_args_is_help=True
)


@app.command("create")
def create(
    typer_context: typer.Context,
    name: str,
    version: Annotated[
        str, typer.Argument(metavar="MODEL:VERSION", help="The first version, or MODEL:ALIAS.")
    ],
    cluster: Annotated[str, typer.Option("--cluster")] = "local",
    engine: Annotated[str, typer.Option("--engine", help="transformers, vllm")] = "transformers",
    replicas: Annotated[int, typer.Option("--replicas", min=1)] = 1,
    slots: Annotated[int, typer.Option("--slots", min=1, help="Requests one worker answers at once.")] = 4,
    plan: Annotated[str, typer.Option("--plan", help="Plan of its releases.")] = "canary",
    image: Annotated[
        str, typer.Option("--image", help="Runtime image of its releases; else the one that fits best.")
    ] = "",
    alias: Annotated[str, typer.Option("--alias", help="Alias that a promotion moves.")] = "",
    team: Annotated[str, typer.Option("--team", help="Else the model's.")] = "",
    description: Annotated[str, typer.Option("--description")] = "",
    settings: Annotated[
        Path | None, typer.Option("--settings", help="JSON file with the engine's settings.")
    ] = None,
) -> None:
    """Create a service; its first version is brought up by a release of its own."""
    context = context_of(typer_context)
    model, first = split_version(version)
    body = {
        "name": name,
        "model": model,
        "version": first,
        "cluster": cluster,
        "engine": engine,
        "replicas": replicas,
        "slots": slots,
        "plan": plan,
        "description": description,
    }
    body |= {key: value for key, value in {"alias": alias, "team": team, "image": image}.items() if value}
    if settings is not None:
        body["settings"] = _read_json(settings)
    document = context.client.create(at("services"), body)
    context.show(document)
    context.say(f"{name} will serve {version}; its first release is {document.get('release_in_motion')}")


@app.command("list")
def list_services(typer_context: typer.Context) -> None:
    """All services that you may see."""
    context = context_of(typer_context)
    rows = list(context.client.each(at("services")))
    context.show(rows)
    context.table(
        ("SERVICE", "STABLE", "CANDIDATE", "CANDIDATE %"),
        ((row["name"], row.get("stable"), row.get("candidate"), _percent(row)) for row in rows),
    )


@app.command("show")
def show(typer_context: typer.Context, name: str) -> None:
    """One service: who is stable, who is the candidate, and what the gateway really routes."""
    context = context_of(typer_context)
    document = context.client.get(at("services", name))
    context.show(document)
    told = {key: document[key] for key in ("name", "model", "stable", "candidate", "url")}
    context.table(("", ""), (told | {"traffic": _routed(document["weights"])}).items())


def _routed(weights: dict[str, Any]) -> str:
    """What is wished for, and what the gateway was seen to do."""
    told, seen = _shares(weights["desired"]), _shares(weights["observed"] or {})
    return f"{told}; of {weights['requests']:,} requests {seen}" if seen else told


def _shares(percent: dict[str, float | None]) -> str:
    return ", ".join(f"{share:g} % {side}" for side, share in percent.items() if share is not None)


def _percent(row: dict[str, Any]) -> Any:
    return ((row.get("weights") or {}).get("desired") or {}).get("candidate")


def _read_json(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except OSError as error:
        raise CommandFailed(f"--settings {path}: {error.strerror}.", Exit.USAGE) from None
    except orjson.JSONDecodeError as error:
        raise CommandFailed(f"--settings {path} is not JSON: {error}.", Exit.USAGE) from None
