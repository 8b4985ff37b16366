"""The `slipway` command: one file per noun."""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from slipway.cli import (
    aliases,
    cluster_gateway,
    clusters,
    drains,
    exemptions,
    exports,
    federation,
    gpu,
    gpu_checks,
    gpu_counts,
    gpu_drills,
    gpu_findings,
    group_rules,
    hub_sources,
    hub_syncs,
    images,
    models,
    quotas,
    releases,
    services,
    signing,
    store,
    stuck,
    tokens,
    uploads,
    webhooks,
)
from slipway.cli.context import Context, OutputFormat, Outside
from slipway.exits import CommandFailed

app = typer.Typer(
    name="slipway",
    help="Model versions, services and releases, from a terminal or a pipeline.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(models.app, name="models")
app.add_typer(aliases.app, name="alias")
app.add_typer(images.app, name="images")
clusters.app.add_typer(cluster_gateway.app, name="gateway")
app.add_typer(clusters.app, name="cluster")
app.add_typer(drains.app, name="node")
app.add_typer(services.app, name="service")
app.add_typer(releases.app, name="release")
app.add_typer(tokens.app, name="token")
app.add_typer(store.app, name="store")
app.add_typer(exemptions.app, name="exemption")
app.add_typer(hub_sources.app, name="source")
app.add_typer(hub_syncs.app, name="sync")
app.add_typer(uploads.app, name="upload")
app.add_typer(exports.app, name="export")
app.add_typer(signing.app, name="signing")
app.add_typer(quotas.app, name="quota")
app.add_typer(webhooks.app, name="webhook")
app.add_typer(group_rules.app, name="group-rule")
app.add_typer(federation.accounts, name="service-account")
app.add_typer(federation.credentials, name="credential")
gpu.app.add_typer(gpu_findings.app, name="finding")
gpu.app.add_typer(gpu_checks.app, name="check")
gpu.app.add_typer(gpu_counts.app, name="count")
gpu.app.add_typer(gpu_drills.app, name="drill")
app.add_typer(gpu.app, name="gpu")
app.add_typer(stuck.app, name="stuck")


@app.callback()
def settings(
    typer_context: typer.Context,
    url: Annotated[
        str, typer.Option("--url", envvar="SLIPWAY_URL", help="Address of the console.")
    ] = "http://127.0.0.1:8000",
    token: Annotated[
        str,
        typer.Option("--token", envvar="SLIPWAY_TOKEN", help="API token; prefer the environment variable."),
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", envvar="SLIPWAY_TOKEN_FILE", help="File that contains the API token."),
    ] = None,
    output: Annotated[
        OutputFormat, typer.Option("--output", "-o", help="json: one document on stdout, messages on stderr.")
    ] = OutputFormat.TEXT,
) -> None:
    typer_context.obj = Context(
        url=url, token=token, token_file=token_file, output=output, outside=typer_context.obj
    )


@cache
def command() -> Callable[..., object]:
    """The tree of all commands, built once: that takes longer than most of them."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None, *, outside: Outside | None = None) -> None:
    """Entry point: maps what can go wrong to the exit statuses of `slipway.exits`. Always exits."""
    try:
        command()(arguments, obj=outside or Outside())
    except CommandFailed as failure:
        sys.stderr.write(f"slipway: {failure}\n")
        sys.exit(failure.exit)
    except KeyboardInterrupt:
        sys.stderr.write("slipway: interrupted; what was started on the server continues.\n")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
