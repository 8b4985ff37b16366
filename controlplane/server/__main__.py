"""`slipway-server ROLE`. Settings: `SLIPWAY_*` variables or a `.env` file (docs/SETTINGS.md).

Each command loads no more than its role needs, and ends with one line per thing that is missing.
"""

import os
from typing import Annotated

import typer

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.production")

HealthPort = Annotated[
    int | None,
    typer.Option(
        min=1, max=65535, help="Port on which this process answers /healthz and /readyz.", show_default=False
    ),
]

app = typer.Typer(
    help=__doc__,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command()
def prepare() -> None:
    """Bring database, static files, first administrator and built-in accounts up to date: run it first."""
    from controlplane.server.preparation import prepare_or_exit

    prepare_or_exit()


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
def gateway() -> None:
    """Run Envoy, the gateway of this machine's models, in the foreground."""
    from controlplane.server.roles import run_gateway

    run_gateway()


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


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def manage(context: typer.Context) -> None:
    """Run a command of Django's `manage.py` with this server's settings."""
    from django.core.management import execute_from_command_line

    execute_from_command_line(["slipway-server manage", *context.args])


def main() -> None:
    app(prog_name="slipway-server")


if __name__ == "__main__":
    main()
