"""`slipway images edit`, `deprecate`, `reinstate` and `trial`: changes of an image."""

from typing import Annotated, Any

import typer

from slipway.cli.context import context_of
from slipway.cli.options import RequiredReason
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

Mirrors = Annotated[
    list[str] | None,
    typer.Option(
        "--mirror", metavar="REGION=REPOSITORY", help="Repository with the same digest; repeatable."
    ),
]
ACCELERATIONS = "lazy-stargz, lazy-nydus, lazy-soci, lazy-gke, p2p-dragonfly, p2p-spegel, prepull, node-image"


def edit(
    typer_context: typer.Context,
    name: str,
    description: Annotated[str | None, typer.Option("--description")] = None,
    mirrors: Mirrors = None,
    without_mirror: Annotated[
        list[str] | None,
        typer.Option("--without-mirror", metavar="REGION", help="Remove this mirror; repeatable."),
    ] = None,
    acceleration: Annotated[
        str | None, typer.Option("--acceleration", help=f"{ACCELERATIONS}, or '' for none.")
    ] = None,
    why: Annotated[str | None, typer.Option("--why", help="Reason for this acceleration.")] = None,
) -> None:
    """Change the options given; running workers are not affected."""
    context = context_of(typer_context)
    given = {"description": description, "acceleration": acceleration, "acceleration_why": why}
    body: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    added, gone = mirrors_of(mirrors), set(without_mirror or ())
    if not (body or added or gone):
        raise CommandFailed(
            "Nothing to change: give an option such as --mirror eu=mirror.example.org/vllm.", Exit.USAGE
        )

    def changed(image: Document) -> dict[str, Any]:
        if unknown := sorted(gone - image["mirrors"].keys()):
            known = ", ".join(image["mirrors"]) or "none"
            raise CommandFailed(f"{name} has no mirror in {unknown[0]}; its mirrors: {known}.", Exit.USAGE)
        kept = {region: place for region, place in image["mirrors"].items() if region not in gone}
        return body | ({"mirrors": kept | added} if added or gone else {})

    image = context.client.change(at("images", name), changed)
    context.tell(image, f"{name} is updated.")


def deprecate(
    typer_context: typer.Context,
    name: str,
    replaced_by: Annotated[
        str, typer.Option("--replaced-by", help="Replacement: an image of the same engine.")
    ] = "",
    reason: RequiredReason = "",
) -> None:
    """Deprecate an image: releases use it only if named explicitly; running workers are not affected."""
    context = context_of(typer_context)
    body = {"reason": reason} | ({"replaced_by": replaced_by} if replaced_by else {})
    image = context.client.create(at("images", name, "deprecate"), body)
    context.tell(image, f"{name} is {image['state']}." + (f" Use {replaced_by}." if replaced_by else ""))


def reinstate(typer_context: typer.Context, name: str, reason: RequiredReason = "") -> None:
    """Reinstate a deprecated image: releases may select it again."""
    context = context_of(typer_context)
    body = {"reason": reason}
    image = context.client.create(at("images", name, "reinstate"), body)
    context.tell(image, f"{name} is {image['state']}.")


def clear_pull_failure(
    typer_context: typer.Context,
    name: str,
    cluster: Annotated[str, typer.Option("--cluster", help="The cluster that could not pull it.")],
    reason: RequiredReason = "",
) -> None:
    """Clear a failed pull: releases on that cluster may select the image again."""
    context = context_of(typer_context)
    body = {"cluster": cluster, "reason": reason}
    image = context.client.create(at("images", name, "clear-pull-failure"), body)
    context.tell(image, f"Releases on {cluster} may select {name} again.")


def trial(
    typer_context: typer.Context,
    name: str,
    gpu: Annotated[str, typer.Option("--gpu", help="GPU as `nvidia-smi` names it, or shorter: H100.")],
    works: Annotated[bool, typer.Option("--works/--fails", help="Result.")],
    driver: Annotated[str, typer.Option("--driver", help="Driver version, such as 550.54.15.")] = "",
    architecture: Annotated[
        str,
        typer.Option("--architecture", help="Model architecture, such as LlamaForCausalLM; default: any."),
    ] = "",
    words: Annotated[str, typer.Option("--words", help="Notes; with --fails, the failure.")] = "",
) -> None:
    """Record whether an image works on a GPU; the latest result for a GPU and architecture counts."""
    context = context_of(typer_context)
    body = {"gpu": gpu, "outcome": "works" if works else "fails"}
    told = {"driver": driver, "architecture": architecture, "words": words}
    body |= {key: value for key, value in told.items() if value}
    image = context.client.create(at("images", name, "trials"), body)
    context.tell(image, f"{name} {body['outcome']} on {gpu}.")


def mirrors_of(given: list[str] | None) -> dict[str, str]:
    """`REGION=REPOSITORY` in its two parts. Raises CommandFailed."""
    return dict(map(_mirror, given or ()))


def _mirror(text: str) -> tuple[str, str]:
    region, equals, repository = text.partition("=")
    if not (region and equals and repository):
        raise CommandFailed(f"--mirror '{text}' is not of the form REGION=REPOSITORY.", Exit.USAGE)
    return region, repository
