"""`slipway jobs`: long work of services."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli.context import Columns, context_of
from slipway.client import at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Jobs: long work of services, which waits in a queue.", no_args_is_help=True)
COLUMNS: Columns = {
    "JOB": "id",
    "SERVICE": "service",
    "PATH": "path",
    "VERSION": "version",
    "STATE": "state",
    "ATTEMPTS": "attempts",
    "CREATED": "created_at",
}
JobId = Annotated[str, typer.Argument(help="Id of the job.", metavar="JOB")]


@app.command("submit")
def submit(
    typer_context: typer.Context,
    service: str,
    path: Annotated[str, typer.Argument(help="Route of a job, for example /render.")],
    body: Annotated[str, typer.Option("--body", help="JSON, or @FILE with it.")] = "{}",
) -> None:
    """Submit a job through the service's gateway."""
    context = context_of(typer_context)
    try:
        document: Any = json.loads(Path(body[1:]).read_text() if body.startswith("@") else body)
    except (OSError, ValueError) as error:
        raise CommandFailed(f"--body is no JSON: {error}", Exit.USAGE) from None
    job = context.client.create(at("jobs"), {"service": service, "path": path, "body": document})
    context.show(job)
    context.say(f"Job {job['id']} is {job['state']}.")


@app.command("list")
def list_jobs(
    typer_context: typer.Context,
    service: Annotated[str, typer.Option("--service", help="Jobs of this service only.")] = "",
    state: Annotated[
        str, typer.Option("--state", help="queued, running, succeeded, failed or cancelled.")
    ] = "",
) -> None:
    """List jobs, the newest first."""
    given = {"service": service, "state": state}
    filters = {name: value for name, value in given.items() if value}
    context_of(typer_context).each(at("jobs"), COLUMNS, **filters)


@app.command("show")
def show(typer_context: typer.Context, job: JobId) -> None:
    """Show a job."""
    context = context_of(typer_context)
    context.show(context.client.get(at("jobs", job)))


@app.command("cancel")
def cancel(typer_context: typer.Context, job: JobId) -> None:
    """Cancel a queued or running job."""
    _act(typer_context, job, "cancel")


@app.command("retry")
def retry(typer_context: typer.Context, job: JobId) -> None:
    """Queue a failed or cancelled job again."""
    _act(typer_context, job, "retry")


def _act(typer_context: typer.Context, job: str, verb: str) -> None:
    context = context_of(typer_context)
    row = context.client.create(at("jobs", job, verb), {})
    context.show(row)
    context.say(f"Job {row['id']} is {row['state']}.")
