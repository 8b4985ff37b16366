"""`slipway images edit`, `deprecate`, `reinstate` and `trial`: what of an image changes."""

from typing import Annotated, Any

import typer

from slipway.cli.context import context_of
from slipway.cli.options import Reason
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

Mirrors = Annotated[
    list[str] | None,
    typer.Option("--mirror", metavar="REGION=REPOSITORY", help="Holds the same digest; repeatable."),
]
ACCELERATIONS = "lazy-stargz, lazy-nydus, lazy-soci, p2p-dragonfly, p2p-spegel, prepull, node-image"


def edit(
    typer_context: typer.Context,
    name: str,
    description: Annotated[str | None, typer.Option("--description")] = None,
    mirrors: Mirrors = None,
    without_mirror: Annotated[
        list[str] | None, typer.Option("--without-mirror", metavar="REGION", help="Forget it; repeatable.")
    ] = None,
    acceleration: Annotated[
        str | None, typer.Option("--acceleration", help=f"{ACCELERATIONS}, or '' for none.")
    ] = None,
    why: Annotated[str | None, typer.Option("--why", help="Why a cluster should load it so.")] = None,
) -> None:
    """Change what is given; what runs goes on with what it pulled."""
    context = context_of(typer_context)
    given = {"description": description, "acceleration": acceleration, "acceleration_why": why}
    body: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    added, gone = mirrors_of(mirrors), set(without_mirror or ())
    if not (body or added or gone):
        raise CommandFailed("Say what to change, such as --mirror eu=mirror.example.org/vllm.", Exit.USAGE)

    def changed(image: Document) -> dict[str, Any]:
        if unknown := sorted(gone - image["mirrors"].keys()):
            known = ", ".join(image["mirrors"]) or "none"
            raise CommandFailed(f"{name} has no mirror in {unknown[0]}; it has {known}.", Exit.USAGE)
        kept = {region: place for region, place in image["mirrors"].items() if region not in gone}
        return body | ({"mirrors": kept | added} if added or gone else {})

    image = context.client.change(at("images", name), changed)
    context.show(image)
    context.say(f"{name} is changed.")


def deprecate(
    typer_context: typer.Context,
    name: str,
    replaced_by: Annotated[
        str, typer.Option("--replaced-by", help="An image of the same engine that takes its place.")
    ] = "",
    reason: Reason = "",
) -> None:
    """Let no release pick an image by itself any more; what runs goes on, and whoever names it gets it."""
    context = context_of(typer_context)
    body = {"reason": context.asked_for(reason)} | ({"replaced_by": replaced_by} if replaced_by else {})
    image = context.client.create(at("images", name, "deprecate"), body)
    context.show(image)
    context.say(f"{name} is {image['state']}." + (f" Use {replaced_by}." if replaced_by else ""))


def reinstate(typer_context: typer.Context, name: str, reason: Reason = "") -> None:
    """Let releases pick a deprecated image again."""
    context = context_of(typer_context)
    body = {"reason": context.asked_for(reason)}
    image = context.client.create(at("images", name, "reinstate"), body)
    context.show(image)
    context.say(f"{name} is {image['state']}.")


def trial(
    typer_context: typer.Context,
    name: str,
    gpu: Annotated[str, typer.Option("--gpu", help="As `nvidia-smi` names it, or shorter: H100.")],
    works: Annotated[bool, typer.Option("--works/--fails", help="What came of it.")],
    driver: Annotated[str, typer.Option("--driver", help="Its driver, such as 550.54.15.")] = "",
    architecture: Annotated[
        str, typer.Option("--architecture", help="Of the model, such as LlamaForCausalLM; else any.")
    ] = "",
    words: Annotated[str, typer.Option("--words", help="More of it; with --fails, how it fails.")] = "",
) -> None:
    """Note what came of running an image; the last word about a GPU and an architecture counts."""
    context = context_of(typer_context)
    body = {"gpu": gpu, "outcome": "works" if works else "fails"}
    told = {"driver": driver, "architecture": architecture, "words": words}
    body |= {key: value for key, value in told.items() if value}
    image = context.client.create(at("images", name, "trials"), body)
    context.show(image)
    context.say(f"{name} {body['outcome']} on {gpu}.")


def mirrors_of(given: list[str] | None) -> dict[str, str]:
    """`REGION=REPOSITORY` in its two parts. Raises CommandFailed."""
    return dict(map(_mirror, given or ()))


def _mirror(text: str) -> tuple[str, str]:
    region, equals, repository = text.partition("=")
    if not (region and equals and repository):
        raise CommandFailed(f"--mirror '{text}' is not of the form REGION=REPOSITORY.", Exit.USAGE)
    return region, repository
