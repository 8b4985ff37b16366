"""Waiting for the server without giving up at its first hiccup."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from slipway.cli.context import CliContext
from slipway.client import ApiPath, Document, ServerUnreachable
from slipway.exits import CommandFailed, Exit

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Answer = TypeVar("Answer")

POLL_SECONDS = 0.5
PATIENCE_SECONDS = 60.0
"""How long a server that answered before may be silent: a restart, a failover."""


class WaitDeadline:
    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._at


def patiently(ask: Callable[[], Answer], deadline: WaitDeadline, *, sleep: Callable[[float], None]) -> Answer:
    """The answer, asked for again while the server is away; raises ServerUnreachable when it stays away."""
    patience = WaitDeadline(PATIENCE_SECONDS)
    while True:
        try:
            return ask()
        except ServerUnreachable:
            if patience.is_over or deadline.is_over:
                raise
            sleep(POLL_SECONDS)


def until_over(
    context: CliContext,
    document: Document,
    address: ApiPath,
    *,
    is_open: Callable[[Document], bool],
    timeout: float,
) -> Document:
    """The document at `address` once it is open no more; shows it and ends the command when time is over."""
    deadline, sleep = WaitDeadline(timeout), context.outside.sleep
    while is_open(document):
        if deadline.is_over:
            context.show(document)
            raise CommandFailed("Timed out waiting; it continues on the server.", Exit.TIMED_OUT)
        if stuck := document.get("stuck"):
            context.show(document)
            raise CommandFailed(f"It is stuck: {stuck}", Exit.FAILED)
        sleep(POLL_SECONDS)
        document = patiently(lambda: context.client.get(address), deadline, sleep=sleep)
    return document


def transfer_bar(console: "Console") -> "Progress":
    """Bytes, speed and time left, where a person looks on."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal)
