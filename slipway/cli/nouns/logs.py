"""`slipway logs`: what workers write, also while they write it, and how logs are printed."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from slipway.cli.context import CliContext, context_of
from slipway.client import ApiPath, Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer()
LOOK_EVERY_SECONDS = 1.0
MOST_LINES = 2000
Lines = Annotated[int, typer.Option("--lines", "-n", min=1, max=MOST_LINES)]
Grep = Annotated[str, typer.Option("--grep", help="Only lines that match this regular expression.")]


@app.command("logs")
def logs(
    typer_context: typer.Context,
    workers: Annotated[list[str] | None, typer.Argument(help="Names of workers.")] = None,
    service: Annotated[str, typer.Option("--service", help="All workers of this service.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Lines = 200,
    grep: Grep = "",
) -> None:
    """Print the end of workers' logs; with -f what they write from then on, too."""
    context = context_of(typer_context)
    names = workers or _workers_of(context, service)
    addresses = {name: at("workers", name, "log") for name in names}
    print_logs(context, addresses, lines=lines, grep=grep, goes_on=lambda _document: follow)


def print_logs(
    context: CliContext,
    addresses: Mapping[str, ApiPath],
    *,
    lines: int,
    grep: str,
    goes_on: Callable[[Document], bool],
) -> Document:
    """Print the end of the logs by name, and what is added, as long as one of the last answers `goes_on`.

    Returns the last answer. Raises CommandFailed for what is no regular expression.
    """
    try:
        wanted = re.compile(grep)
    except re.error as error:
        raise CommandFailed(f"--grep: {error}.", Exit.USAGE) from None
    before: dict[str, list[str]] = {}
    while True:
        told: Document = {}
        for name, address in addresses.items():
            told = context.client.get(address, lines=lines)
            tail = str(told["log"]).splitlines()
            for line in fresh(before.get(name, []), tail):
                if wanted.search(line):
                    context.print_line(f"{name}: {line}" if len(addresses) > 1 else line)
            before[name] = tail
        if not goes_on(told):
            return told
        context.outside.sleep(LOOK_EVERY_SECONDS)


def fresh(before: Sequence[str], tail: Sequence[str]) -> Sequence[str]:
    """Return the lines of `tail` that come after `before`: its beginning overlaps with their end."""
    for size in range(min(len(before), len(tail)), 0, -1):
        if before[-size:] == tail[:size]:
            return tail[size:]
    return tail


def _workers_of(context: CliContext, service: str) -> list[str]:
    if not service:
        raise CommandFailed("Name workers, or a service by --service.", Exit.USAGE)
    rows = context.client.get(at("workers"), service=service)["workers"]
    found = sorted(str(row["name"]) for row in rows)
    if not found:
        raise CommandFailed(f"Service {service} has no worker.", Exit.FAILED)
    return found
