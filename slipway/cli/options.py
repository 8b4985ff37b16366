"""Arguments and options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from slipway.cli.context import context_of


def _reason_given(typer_context: typer.Context, reason: str) -> str:
    return context_of(typer_context).asked_for(reason)


Reason = Annotated[str, typer.Option("--reason", "-r", help="Reason; recorded in the audit log.")]
RequiredReason = Annotated[
    str,
    typer.Option(
        "--reason", "-r", callback=_reason_given, help="Reason; required, recorded in the audit log."
    ),
]
"""Where REST demands it: the person at a terminal is asked for it."""
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of rows.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Maximum wait in seconds; then exit 4.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for completion.")]
WaitForEnd = Annotated[
    bool, typer.Option("--wait", help="Wait for completion; the exit status tells the result.")
]

OnlyModel = Annotated[str, typer.Option("--model", "-m", help="Only of this model.")]
OnlyTeam = Annotated[str, typer.Option("--team", help="Only of this team.")]
States = Annotated[list[str] | None, typer.Option("--state", help="Only in this state; repeatable.")]
VersionLabel = Annotated[str, typer.Argument(metavar="MODEL:VERSION")]
Number = Annotated[int, typer.Argument(metavar="ID", help="ID from `list`.")]

Allow = Annotated[list[str] | None, typer.Option("--allow", help="Include pattern; repeatable.")]
Ignore = Annotated[list[str] | None, typer.Option("--ignore", help="Exclude pattern; repeatable.")]
Parent = Annotated[str, typer.Option("--parent", help="Parent version: v2, or MODEL:v2.")]
BaseModel = Annotated[
    str, typer.Option("--base-model", help="Base model: MODEL:v2, or hf://org/name@revision.")
]
Job = Annotated[str, typer.Option("--job", help="Name or URL of the training job.")]
Data = Annotated[list[str] | None, typer.Option("--data", help="Name or URL of training data; repeatable.")]
NewTags = Annotated[list[str] | None, typer.Option("--tag", help="Tag to add to the version; repeatable.")]
HubTokenFile = Annotated[
    Path | None,
    typer.Option("--hub-token-file", help="File with a token for the hub; stored encrypted."),
]
