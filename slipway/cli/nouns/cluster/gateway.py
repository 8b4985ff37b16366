"""`slipway cluster gateway`: what splits a cluster's traffic, and what counts it."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import context_of, secret_of
from slipway.cli.options import RequiredReason
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="A cluster's gateway: what splits its traffic.", no_args_is_help=True)

Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="Name from `slipway cluster list`.")]


class GatewayChoice(StrEnum):
    ENVOY = "envoy"
    GATEWAY_API = "gateway_api"


class GatewayMetricsOption(StrEnum):
    GATEWAY = "gateway"
    WORKERS = "workers"
    PROMETHEUS = "prometheus"
    ENVOY = "envoy"


@app.command("show")
def show(typer_context: typer.Context, cluster: Cluster) -> None:
    """Show the gateway: its settings, what counts, its health."""
    context = context_of(typer_context)
    row = context.client.get(at("clusters", cluster, "gateway"))
    context.show(row)
    settings = {f"setting {name}": _shown(value) for name, value in row["settings"].items()}
    context.details(
        {
            "kind": row["kind"],
            **settings,
            "secrets": ", ".join(row["secrets"]),
            "counted by": row["metrics"],
            "address": row["public_url"],
            "healthy": "yes" if row["is_healthy"] else "no",
            "found": row["detail"],
            "seen": row["seen_at"],
        }
    )


@app.command("set")
@confirmed("Change how traffic reaches {cluster}?")
def set_gateway(
    typer_context: typer.Context,
    cluster: Cluster,
    kind: Annotated[
        GatewayChoice | None,
        typer.Option("--kind", help="Required for the first; another one drops all settings."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Setting of its kind; VALUE is text, or JSON for lists, objects and numbers; empty: "
            "removes it; repeatable.",
        ),
    ] = None,
    secrets: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME=FILE",
            help="File with a secret of its kind; stored encrypted; replaces all of them; repeatable.",
        ),
    ] = None,
    metrics: Annotated[
        GatewayMetricsOption | None,
        typer.Option("--metrics", help="Source of the counts of requests per version."),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option("--public-url", help="Address under which clients reach it; empty: as its kind says."),
    ] = None,
) -> None:
    """Set the gateway, or change what is given of it; its routes follow within seconds."""
    context = context_of(typer_context)
    told = [_pair(one, option="--set") for one in settings or ()]
    files = [_pair(one, option="--secret") for one in secrets or ()]
    read = {name: secret_of(Path(path), option="--secret") for name, path in files}

    def changed(present: Document | None) -> dict[str, Any]:
        if kind is None and present is None:
            raise CommandFailed(
                f"{cluster} has no gateway yet: say which with --kind envoy or --kind gateway_api.",
                Exit.USAGE,
            )
        keeps = present if present and kind in (None, present["kind"]) else None
        return _body(keeps, kind=kind, told=told, secrets=read, metrics=metrics, public_url=public_url)

    row = context.client.replace(at("clusters", cluster, "gateway"), changed)
    context.tell(row, f"The gateway of {cluster} is set; `slipway cluster gateway show` shows its health.")


@app.command("clear")
@confirmed("Remove the gateway of {cluster} and delete its secrets?")
def clear(typer_context: typer.Context, cluster: Cluster, reason: RequiredReason = "") -> None:
    """Remove the gateway of a cluster through which no service is reached; what it was told is gone."""
    context = context_of(typer_context)
    row = context.client.delete(at("clusters", cluster, "gateway"), reason=reason)
    context.tell(row, f"{cluster} has no gateway now.")


def _body(
    keeps: Document | None,
    *,
    kind: GatewayChoice | None,
    told: list[tuple[str, str]],
    secrets: dict[str, str],
    metrics: GatewayMetricsOption | None,
    public_url: str | None,
) -> dict[str, Any]:
    """`keeps`: the gateway as it is, where what is not given stays."""
    settings = dict(keeps["settings"]) if keeps else {}
    for name, text in told:
        if text:
            settings[name] = _value(text)
        else:
            settings.pop(name, None)
    body: dict[str, Any] = {"kind": str(kind or (keeps or {})["kind"]), "settings": settings}
    if secrets or keeps is None:
        body["secrets"] = secrets
    if metrics or keeps:
        body["metrics"] = str(metrics or (keeps or {})["metrics"])
    elif kind is GatewayChoice.GATEWAY_API:
        # It counts nothing itself.
        body["metrics"] = str(GatewayMetricsOption.WORKERS)
    body["public_url"] = public_url if public_url is not None else (keeps or {}).get("named_url", "")
    return body


def _pair(given: str, *, option: str) -> tuple[str, str]:
    """Raises CommandFailed."""
    name, equals, value = given.partition("=")
    if not (name and equals):
        raise CommandFailed(f"{option} '{given}' is not of the form NAME=VALUE.", Exit.USAGE)
    return name, value


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
