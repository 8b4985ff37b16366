"""`slipway-server ROLE`. Settings: `SLIPWAY_*` variables or a `.env` file (docs/SETTINGS.md).

Each command loads no more than its role needs, and ends with one line per thing that is missing.
"""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.production")

HealthPort = Annotated[
    int | None,
    typer.Option(
        min=1, max=65535, help="Port on which this process answers /healthz and /readyz.", show_default=False
    ),
]

Embedded = Annotated[
    bool, typer.Option("--embedded", help="The installation that `bin/up` runs, in SLIPWAY_HOME.")
]

app = typer.Typer(
    help=__doc__,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class PreparationPart(StrEnum):
    """A part of a preparation, where machines come and go: docs/KUBERNETES.md."""

    DATABASE = "database"
    FILES = "files"


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"


@app.command()
def prepare(
    only: Annotated[
        PreparationPart | None,
        typer.Option(
            help="`database`: the migrations alone; `files`: static files and languages of this home alone.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Bring database, static files, first administrator and built-in accounts up to date: run it first."""
    from controlplane.server.preparation import prepare_or_exit

    prepare_or_exit(only)


@app.command()
def web() -> None:
    """Serve the console, the REST API and the websockets on SLIPWAY_BIND and SLIPWAY_PORT."""
    from controlplane.server.roles import run_web

    run_web()


@app.command()
def worker(
    processes: Annotated[int, typer.Option(min=1, max=64, help="Processes that take work side by side.")] = 2,
    health_port: HealthPort = None,
) -> None:
    """Take due rows and answer doorbells (Celery)."""
    from controlplane.server.roles import run_worker

    run_worker(processes=processes, health_port=health_port)


@app.command()
def sweeper(health_port: HealthPort = None) -> None:
    """Take due rows, also while Redis is away."""
    from controlplane.server.roles import run_sweeper

    run_sweeper(health_port=health_port)


@app.command()
def gateway(
    cluster: Annotated[
        str, typer.Option(help="Of this cluster, whose gateway is an Envoy with settings of its own.")
    ] = "",
) -> None:
    """Run Envoy, the gateway of this machine's models. It goes on when this process gets SIGUSR1 or is
    killed, and the next one takes it over."""
    from controlplane.server.gateway import run_gateway

    run_gateway(cluster=cluster)


@app.command()
def node() -> None:
    """Run the model workers of this machine. They go on when this process is killed, and are taken over."""
    from controlplane.server.node import run_node

    run_node()


@app.command()
def health(
    role: Annotated[str, typer.Argument(help="web, worker, sweeper, gateway or node")],
) -> None:
    """Ask how a role fares on this machine. Exit status 0: it can work; 1: it cannot, and a line says why."""
    from controlplane.server.health_check import check_or_exit

    check_or_exit(role)


@app.command()
def doctor(
    output: Annotated[Output, typer.Option(help="`json` for programs.")] = Output.TEXT,
    is_embedded: Embedded = False,
) -> None:
    """Look at what would fail later: a dump, clocks, certificate, proxy, connections, disk, keys. Exit status
    1: something would."""
    _choose_settings(is_embedded)
    from controlplane.server.doctor import doctor_or_exit

    doctor_or_exit(as_json=output is Output.JSON)


@app.command()
def backup(
    directory: Annotated[Path, typer.Argument(help="Where backups are kept; made if needed.")],
    keys: Annotated[
        Path | None,
        typer.Option(help="File for the keys that open it; keep it elsewhere.", show_default=False),
    ] = None,
    store: Annotated[
        bool | None,
        typer.Option(help="Whether models' files are copied. Default: unless they lie in a bucket."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="How many backups stay; older ones go. Default: all.", show_default=False),
    ] = None,
    is_embedded: Embedded = False,
) -> None:
    """Copy the database, and the files of models that are not in DIRECTORY yet, while everything goes on."""
    _choose_settings(is_embedded)
    from controlplane.server.backups import backup_or_exit

    backup_or_exit(directory, keys=keys, with_store=store, keep=keep)


@app.command()
def restore(
    directory: Annotated[Path, typer.Argument(help="Where backups are kept.")],
    name: Annotated[str, typer.Option("--backup", help="Which one. Default: the newest.")] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Give up what the database holds; otherwise it must be empty.")
    ] = False,
    without_key: Annotated[
        bool, typer.Option("--without-key", help="Though the secret key is lost: stored secrets stay closed.")
    ] = False,
    keys: Annotated[
        Path | None,
        typer.Option(help="With --embedded: the file that `backup --keys` has written.", show_default=False),
    ] = None,
    is_embedded: Embedded = False,
) -> None:
    """Make a backup an installation again. Stop web, worker and sweeper on every machine before."""
    from controlplane.server.backups import restore_or_exit

    _choose_settings(is_embedded)
    restore_or_exit(
        directory,
        name=name,
        replaces=replace,
        without_key=without_key,
        keys=keys if is_embedded else None,
    )


@app.command()
def reseal(is_embedded: Embedded = False) -> None:
    """After a change of SLIPWAY_SECRET_KEY: seal with it what a former one has sealed. Exit status 1: a line
    for each secret that no key opens."""
    _choose_settings(is_embedded)
    from controlplane.server.secrets import reseal_or_exit

    reseal_or_exit()


@app.command()
def bundle(
    file: Annotated[Path, typer.Argument(help="Where it is written: a .tar.gz that is not there yet.")],
    is_embedded: Embedded = False,
) -> None:
    """Collect what support needs to see of this machine, without secrets; also while parts are away."""
    _choose_settings(is_embedded)
    from controlplane.server.bundles import bundle_or_exit

    bundle_or_exit(file)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def manage(context: typer.Context) -> None:
    """Run a command of Django's `manage.py` with this server's settings."""
    from django.core.management import execute_from_command_line

    execute_from_command_line(["slipway-server manage", *context.args])


def _choose_settings(is_embedded: bool) -> None:
    if is_embedded:
        os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings.embedded"


def main() -> None:
    app(prog_name="slipway-server")


if __name__ == "__main__":
    main()
