"""`slipway models import`: a version from a directory of the server or a repository on a hub."""

from pathlib import PurePosixPath
from typing import Annotated, Any

import typer

from slipway.cli.context import context_of
from slipway.cli.options import BaseModel, Data, Ignore, Job, NewTags, Parent, Timeout, Wait
from slipway.cli.pushing import lineage_of, outcome_of, tagged, until_ready
from slipway.client import at
from slipway.exits import CommandFailed, Exit


def import_version(
    typer_context: typer.Context,
    model: Annotated[str, typer.Argument(help="Model that gets the version.")],
    source: Annotated[
        str,
        typer.Argument(help="Directory in one of the server's import roots, or hf://org/name@revision."),
    ],
    root: Annotated[
        str, typer.Option("--root", help="Import root, if the directory is relative to it.")
    ] = "",
    name: Annotated[str, typer.Option("--version", help="Version name; default: the next v-number.")] = "",
    message: Annotated[str, typer.Option("--message", help="Description of this version.")] = "",
    ignore: Ignore = None,
    tag: NewTags = None,
    parent: Parent = "",
    base_model: BaseModel = "",
    job: Job = "",
    data: Data = None,
    wait: Wait = True,
    timeout: Timeout = 3600,
) -> None:
    """Import a version from the server's disk or a hub; exit 0 when it is ready, 1 when it is refused.

    `source places` lists the import roots and hubs; `models push` uploads a directory of this machine.
    """
    context = context_of(typer_context)
    lineage = lineage_of(parent=parent, base_model=base_model, job=job, data=data)
    body: dict[str, Any] = {"source": _on_server(source, root), "message": message}
    given = {"version": name, "ignore_patterns": ignore, "lineage": lineage}
    body |= {key: value for key, value in given.items() if value}
    version = tagged(context, context.client.create(at("models", model, "versions"), body), tag)
    if wait:
        version = until_ready(context, model, version, timeout=timeout)
    context.tell(version, outcome_of(version))


def _on_server(source: str, root: str) -> str:
    """The address of a source as the server wants it. Raises CommandFailed."""
    is_whole = "://" in source or source.startswith("/")
    if is_whole and root:
        raise CommandFailed(f"'{source}' is absolute: leave --root out.", Exit.USAGE)
    if "://" in source:
        return source
    path = str(PurePosixPath(root) / source)
    if not path.startswith("/"):
        raise CommandFailed(
            f"'{path}' is not an absolute path on the server: begin it with /, or give its --root. "
            "`slipway source places` lists the roots.",
            Exit.USAGE,
        )
    return path
