"""`slipway gpu healing drains`: how incidents drain machines."""

from typing import Annotated, Any

import typer

from slipway.cli.context import context_of
from slipway.cli.nouns.node import namespaces_given
from slipway.cli.options import Reason
from slipway.client import at


def healing_drains(
    typer_context: typer.Context,
    within: Annotated[
        int | None, typer.Option("--within", min=1, help="Seconds until it has failed.")
    ] = None,
    grace: Annotated[int | None, typer.Option("--grace", min=1, help="Seconds for each pod to end.")] = None,
    replace_within: Annotated[
        int | None,
        typer.Option("--replace-within", min=0, help="Seconds for replacements elsewhere first; 0: none."),
    ] = None,
    checkpoint_within: Annotated[
        int | None,
        typer.Option("--checkpoint-within", min=0, help="Seconds for checkpoints first; 0: none."),
    ] = None,
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            metavar="NAME=POLICY",
            help="`evict`, `leave` or `finish:SECONDS`; `*` is every other one; repeatable. Those that are "
            "given take the place of all before.",
        ),
    ] = None,
    checkpoint_urls: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint-url", metavar="NAMESPACE=URL", help="Webhook asked for checkpoints first."
        ),
    ] = None,
    local_data: Annotated[
        bool | None,
        typer.Option("--delete-local-data/--keep-local-data", help="Evict pods with emptyDir volumes, too."),
    ] = None,
    force: Annotated[
        bool | None,
        typer.Option("--force/--no-force", help="Also evict pods that no controller recreates."),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Begin with the defaults.")] = False,
    reason: Reason = "",
) -> None:
    """Show how incidents drain machines; with options, change those that are given."""
    context = context_of(typer_context)
    given: dict[str, Any] = {
        "within_seconds": within,
        "grace_seconds": grace,
        "replace_seconds": replace_within,
        "checkpoint_seconds": checkpoint_within,
        "local_data_may_go": local_data,
        "unowned_may_go": force,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if namespaces or checkpoint_urls:
        given["namespaces"] = namespaces_given(namespaces or (), checkpoint_urls or ())
    held = context.client.get(at("gpu-health", "healing"))["drain"]
    if given or reset:
        body = {"drain": {**({} if reset else held), **given}, "reason": context.asked_for(reason)}
        held = context.client.post(at("gpu-health", "healing", "change"), body)["drain"]
    context.show(held)
    context.details({name: str(value) for name, value in held.items()})
    if not held:
        context.say("Incidents drain by the defaults.")
