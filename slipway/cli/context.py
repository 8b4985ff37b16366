"""The context that every command shares: server, token and output."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson
import typer

from slipway.cli.files import text_of
from slipway.cli.tables import fitted
from slipway.client import ApiPath, Client, Document
from slipway.exits import CommandFailed, Exit

if TYPE_CHECKING:
    import httpx2
    from rich.console import Console

Columns = Mapping[str, str | Callable[[Document], Any]]
"""Headings of a table, each with the key of a row or a function of it."""


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)], "\N{REPLACEMENT CHARACTER}")
"""Control characters in texts of other people, which must not steer the reader's terminal."""
_HIDDEN = [0x61C, 0x180E, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF]
_TAGS = range(0xE0000, 0xE0080)
_CONTROLS |= {code: f"[U+{code:04X}]" for code in (*_HIDDEN, *_TAGS)}
"""Invisible characters and those that reverse the order of a text are shown by their codes."""
WIDE_COLUMNS = 1000
"""More than any row needs: a pipe has no edge at which to break a line."""


@dataclass(frozen=True)
class CliEnvironment:
    """The transport and clock of a command; tests bring their own."""

    transport: "httpx2.BaseTransport | None" = None
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class CliContext:
    url: str
    token: str
    token_file: Path | None
    output: OutputFormat
    outside: CliEnvironment = field(default_factory=CliEnvironment)

    @cached_property
    def client(self) -> Client:
        return Client(
            self.url, self._read_token(), transport=self.outside.transport, sleep=self.outside.sleep
        )

    @cached_property
    def words(self) -> "Console":
        """Console for people: stderr when a program reads stdout."""
        from rich.console import Console

        console = Console(stderr=self.output is OutputFormat.JSON, highlight=False, soft_wrap=True)
        if not console.is_terminal:
            console.width = WIDE_COLUMNS
        return console

    @cached_property
    def progress(self) -> "Console":
        """Console for progress: stderr, always."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        self.words.print(text.translate(_CONTROLS), markup=False, emoji=False)

    def show(self, document: Any) -> None:
        """The one document of `--output json`; nothing otherwise."""
        if self.output is OutputFormat.JSON:
            sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")

    def print_line(self, line: str) -> None:
        """A line of another program's output on stdout, at once; its control characters are shown as such."""
        self.print_part(line + "\n")

    def print_part(self, text: str) -> None:
        sys.stdout.write(text.translate(_CONTROLS))
        sys.stdout.flush()

    def say_secret(self, secret: str) -> None:
        """A person reads it here, once; a program finds it in the document and nowhere else."""
        if self.output is OutputFormat.TEXT:
            self.say(secret)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        if self.output is OutputFormat.JSON:
            return
        from rich.table import Table
        from rich.text import Text

        texts = [["" if cell is None else str(cell).translate(_CONTROLS) for cell in row] for row in rows]
        table = Table(box=None, pad_edge=False, header_style="bold")
        if not (self.words.is_terminal and texts):
            for heading in columns:
                table.add_column(heading)
            for row in texts:
                # As a text of its own: rich would take `[words]` of a plain one for its markup.
                table.add_row(*map(Text, row))
            self.words.print(table)
            return
        shown, left_out = fitted(columns, texts, self.words.width)
        for one in shown:
            table.add_column(one.heading, width=one.width, no_wrap=not one.is_prose, overflow="ellipsis")
        for cells in zip(*(one.cells for one in shown), strict=True):
            table.add_row(*map(Text, cells))
        self.words.print(table)
        if left_out:
            self.say(f"Too wide for this terminal: {', '.join(left_out)}. --output json has all.")

    def tabulate(self, rows: Iterable[Document], columns: Columns) -> None:
        """A table for people; nothing for programs."""
        self.table(
            tuple(columns),
            (
                [row.get(cell) if isinstance(cell, str) else cell(row) for cell in columns.values()]
                for row in rows
            ),
        )

    def rows(self, rows: Sequence[Document], columns: Columns) -> None:
        self.show(rows)
        self.tabulate(rows, columns)

    def each(self, address: ApiPath, columns: Columns, **asked: Any) -> None:
        """Every row of a list, as it stands at the address."""
        self.rows(list(self.client.each(address, **asked)), columns)

    def tell(self, document: Document, said: str) -> None:
        """The document for programs, a sentence for people."""
        self.show(document)
        self.say(said)

    def details(self, told: Mapping[str, Any]) -> None:
        """Print the fields of one object, a line each; empty ones are left out."""
        self.table(("", ""), ((key, value) for key, value in told.items() if value))

    def asked_for(self, reason: str) -> str:
        """The reason that was given, or that the person at the terminal gives now."""
        if reason:
            return reason
        if not sys.stdin.isatty():
            raise CommandFailed(
                "A reason is required: --reason '...'. It is recorded in the audit log.", Exit.USAGE
            )
        return str(typer.prompt("Reason", err=True))

    def confirm(self, question: str, *, yes: bool) -> None:
        """Go on, or end the command with nothing done: `yes` was said before, or is asked for now."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise CommandFailed(f"{question} Confirm with --yes.", Exit.USAGE)
        if not typer.confirm(question, err=True):
            raise CommandFailed("Cancelled; nothing was changed.", Exit.FAILED)

    def _read_token(self) -> str:
        if self.token:
            return self.token.strip()
        if self.token_file is None:
            raise CommandFailed(
                "No API token: set SLIPWAY_TOKEN, or give a file with --token-file.", Exit.USAGE
            )
        return secret_of(self.token_file, option="--token-file")


def context_of(typer_context: typer.Context) -> CliContext:
    return cast(CliContext, typer_context.obj)


def secret_of(path: Path | None, *, option: str) -> str:
    """Return the content of the file that the option names; empty without one. Raises CommandFailed."""
    return "" if path is None else text_of(path, named=option)


def flag(wanted: bool | None) -> str:
    """A yes or no as filters of the API take it; empty: either."""
    return "" if wanted is None else str(wanted).lower()


def first_of(names: Sequence[str]) -> str:
    """`models.write +2`: the first name and how many more; `--output json` has all."""
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)


def counted(number: int, noun: str) -> str:
    """`1 version`, `2,000 versions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
