"""`slipway models create`, `edit` and `delete`."""

from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, context_of
from slipway.cli.names import split_version
from slipway.cli.options import Reason
from slipway.client import at
from slipway.exits import CommandFailed, Exit


def create(
    typer_context: typer.Context,
    model: Annotated[
        str, typer.Argument(help="Characters a-z, 0-9, '.', '_' and '-'; unique across all teams.")
    ],
    task: Annotated[str, typer.Option("--task", help="Such as text-generation.")] = "",
    description: Annotated[str, typer.Option("--description")] = "",
    team: Annotated[str, typer.Option("--team", help="Owner; required if you belong to several teams.")] = "",
) -> None:
    """Create a model without versions."""
    context = context_of(typer_context)
    given = {"task": task, "description": description, "team": team}
    body = {"name": model} | {key: value for key, value in given.items() if value}
    document = context.client.create(at("models"), body)
    context.tell(document, f"{model} is created; owner: {document['team']}.")


def edit(
    typer_context: typer.Context,
    model: str,
    task: Annotated[str | None, typer.Option("--task", help="Such as text-generation.")] = None,
    description: Annotated[str | None, typer.Option("--description", help="In Markdown.")] = None,
) -> None:
    """Change the task or description of a model."""
    context = context_of(typer_context)
    given = {"task": task, "description": description}
    body = {key: value for key, value in given.items() if value is not None}
    if not body:
        raise CommandFailed("Nothing to change: give --task, --description or both.", Exit.USAGE)
    document = context.client.patch(at("models", model), body)
    context.tell(document, f"{model}: {document['task']}, {document['description']}".rstrip(", "))


def _deletion(context: CliContext, given: dict[str, Any]) -> str:
    name = given["name"]
    if not given["whole_model"]:
        return f"Permanently delete {name}?"
    if ":" in name:
        raise CommandFailed(f"--whole-model takes the name of a model, not '{name}'.", Exit.USAGE)
    count = context.client.get(at("models", name))["version_count"]
    return f"Permanently delete {name} with all its versions ({count} ready)?"


@confirmed(_deletion)
def delete(
    typer_context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="MODEL:VERSION", help="MODEL with --whole-model.")],
    whole_model: Annotated[
        bool,
        typer.Option("--whole-model", help="Delete the model with all its versions, if none is referenced."),
    ] = False,
    reason: Reason = "",
) -> None:
    """Delete a version that is not referenced; its files are deleted after the grace period."""
    context = context_of(typer_context)
    if whole_model:
        context.client.delete(at("models", name), reason=reason)
        context.tell({"model": name, "deleted": True}, f"{name} is deleted with all its versions.")
        return
    model, version = split_version(name)
    context.client.delete(at("models", model, "versions", version), reason=reason)
    context.tell(
        {"model": model, "name": version, "state": "deleted"},
        f"{name} is deleted; its name cannot be reused and its history is kept.",
    )
