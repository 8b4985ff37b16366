"""What every command shares: the server, the token, and how to speak."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import orjson
import typer
from rich.console import Console
from rich.table import Table

from slipway.client import Client
from slipway.exits import CommandFailed, Exit


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True)
class Context:
    url: str
    token: str
    token_file: Path | None
    output: OutputFormat

    @cached_property
    def client(self) -> Client:
        return Client(self.url, self._read_token())

    @cached_property
    def words(self) -> Console:
        """Where people's words go: stderr when a program reads stdout."""
        return Console(stderr=self.output is OutputFormat.JSON, highlight=False, soft_wrap=True)

    @cached_property
    def progress(self) -> Console:
        """Where progress goes: stderr, always."""
        return Console(stderr=True, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        self.words.print(text, markup=False)

    def show(self, document: Any) -> None:
        """The one document of `--output json`; nothing otherwise."""
        if self.output is OutputFormat.JSON:
            sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        if self.output is OutputFormat.JSON:
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column)
        for row in rows:
            table.add_row(*("" if cell is None else str(cell) for cell in row))
        self.words.print(table)

    def _read_token(self) -> str:
        if self.token:
            return self.token.strip()
        if self.token_file is None:
            raise CommandFailed(
                "No API token: set SLIPWAY_TOKEN, or name a file with --token-file.", Exit.USAGE
            )
        try:
            token = self.token_file.read_text().strip()
        except OSError as error:
            raise CommandFailed(f"--token-file {self.token_file}: {error.strerror}.", Exit.USAGE) from None
        if not token:
            raise CommandFailed(f"--token-file {self.token_file} is empty.", Exit.USAGE)
        return token


def context_of(typer_context: typer.Context) -> Context:
    return cast(Context, typer_context.obj)


def size(count: int | float | None) -> str:
    """Bytes for people: `12.3 MB`."""
    if count is None:
        return ""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
