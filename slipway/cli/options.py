"""Arguments and options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the record.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="So many of the newest.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait at most.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is over.")]
WaitForEnd = Annotated[bool, typer.Option("--wait", help="Wait until it is over; the exit status tells.")]

OnlyModel = Annotated[str, typer.Option("--model", "-m", help="Only of this model.")]
OnlyTeam = Annotated[str, typer.Option("--team", help="Only of this team.")]
States = Annotated[list[str] | None, typer.Option("--state", help="Only in this state; repeatable.")]
VersionLabel = Annotated[str, typer.Argument(metavar="MODEL:VERSION")]
Number = Annotated[int, typer.Argument(metavar="ID", help="As `list` tells it.")]

Allow = Annotated[list[str] | None, typer.Option("--allow", help="Only files that match; repeatable.")]
Ignore = Annotated[list[str] | None, typer.Option("--ignore", help="Leave out files that match; repeatable.")]
Parent = Annotated[str, typer.Option("--parent", help="The version that it was made from: v2, or MODEL:v2.")]
BaseModel = Annotated[
    str, typer.Option("--base-model", help="What it was tuned from: MODEL:v2, or hf://org/name@revision.")
]
Job = Annotated[str, typer.Option("--job", help="Name or address of the job that made it.")]
Data = Annotated[
    list[str] | None, typer.Option("--data", help="Name or address of data it learned from; repeatable.")
]
NewTags = Annotated[list[str] | None, typer.Option("--tag", help="Tag of the version; repeatable.")]
HubTokenFile = Annotated[
    Path | None,
    typer.Option("--hub-token-file", help="File with the hub's token; the server keeps it encrypted."),
]
