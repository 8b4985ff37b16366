"""Arguments and options that several commands take."""

from typing import Annotated

import typer

VersionLabel = Annotated[str, typer.Argument(metavar="MODEL:VERSION")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the record.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait at most.")]
