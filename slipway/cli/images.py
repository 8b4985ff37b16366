from typing import Annotated, Any

import typer

from slipway.cli.context import Context, context_of, flag, size
from slipway.cli.image_changes import ACCELERATIONS, Mirrors, deprecate, edit, mirrors_of, reinstate, trial
from slipway.cli.names import split_version
from slipway.client import at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(
    help="Runtime images: what workers run in, by digest, and which of them fits.", no_args_is_help=True
)
app.command("edit")(edit)
app.command("deprecate")(deprecate)
app.command("reinstate")(reinstate)
app.command("trial")(trial)
Engine = Annotated[str, typer.Option("--engine", help="vllm, transformers, triton ...")]


@app.command("list")
def list_images(
    typer_context: typer.Context,
    query: Annotated[str, typer.Option("--search", "-q", help="Part of a name, a version, a digest.")] = "",
    engine: Engine = "",
    team: Annotated[str, typer.Option("--team", help="Those of this team alone.")] = "",
    state: Annotated[str, typer.Option("--state", help="current, deprecated")] = "",
    shared: Annotated[
        bool | None, typer.Option("--shared/--of-teams", help="Of the whole installation, or of teams.")
    ] = None,
) -> None:
    """All images that you may see."""
    context = context_of(typer_context)
    wanted = {"q": query, "engine": engine, "team": team, "state": state, "shared": flag(shared)}
    rows = list(context.client.each(at("images"), **wanted))
    context.show(rows)
    context.table(
        ("IMAGE", "ENGINE", "VERSION", "CUDA", "COMPILED FOR", "SIZE", "STATE", "TEAM"),
        (
            (
                row["name"],
                row["engine"],
                row["engine_version"],
                row["cuda_version"],
                " ".join(row["code"]),
                size(row["size_bytes"] or None),
                row["state"],
                row["team"] or "all",
            )
            for row in rows
        ),
    )


@app.command("show")
def show(typer_context: typer.Context, name: str) -> None:
    """One image, what it needs, its mirrors, and where it has been tried."""
    context = context_of(typer_context)
    document = context.client.get(at("images", name))
    context.show(document)
    context.table(("", ""), ((key, value) for key, value in _told(document).items() if value))
    if document["mirrors"]:
        context.table(("REGION", "MIRROR"), document["mirrors"].items())
    if document["trials"]:
        context.table(
            ("AT", "GPU", "DRIVER", "ARCHITECTURE", "OUTCOME", "BY", "WORDS"),
            (
                (
                    one["at"],
                    one["gpu"],
                    one["driver"],
                    one["architecture"] or "any",
                    one["outcome"],
                    one["by"],
                    one["words"],
                )
                for one in document["trials"]
            ),
        )


def _told(image: dict[str, Any]) -> dict[str, str]:
    cuda, driver = image["cuda_version"], image["least_driver"]
    ended = f"since {image['deprecated_at']} by {image['deprecated_by']}: {image['deprecated_why']}"
    return {
        "name": image["name"],
        "team": image["team"] or "all",
        "engine": f"{image['engine']} {image['engine_version']}",
        "reference": image["reference"],
        "size": size(image["size_bytes"] or None),
        "CUDA": cuda or "none",
        "driver": f"{driver} or newer" if driver else f"what CUDA {cuda} needs" if cuda else "",
        "compiled for": " ".join(image["code"]),
        "without a GPU": "runs" if image["runs_on_cpu"] else "does not run",
        "loads": " ".join(image["formats"]),
        "state": f"deprecated {ended}" if image["deprecated_at"] else image["state"],
        "replaced by": image["replaced_by"] or "",
        "load it by": f"{image['acceleration']}: {image['acceleration_why']}"
        if image["acceleration"]
        else "",
        "description": image["description"],
        "added": f"{image['created_at']} by {image['created_by']}",
    }


@app.command("add")
def add(
    typer_context: typer.Context,
    name: str,
    reference: Annotated[
        str, typer.Argument(metavar="REPOSITORY@sha256:...", help="As `crane digest` completes it.")
    ],
    engine: Engine,
    engine_version: Annotated[str, typer.Option("--engine-version", help="Such as 0.10.2.")],
    cuda: Annotated[str, typer.Option("--cuda", help="CUDA that it brings, such as 12.8.")] = "",
    driver: Annotated[
        str, typer.Option("--driver", help="Least driver; unless given, what its CUDA needs.")
    ] = "",
    code: Annotated[
        list[str] | None,
        typer.Option("--code", help="Compute capability, such as 9.0, sm_90 or 10.0+PTX; repeatable."),
    ] = None,
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="safetensors, gguf, onnx; repeatable.")
    ] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="It runs without a GPU, too.")] = False,
    size_bytes: Annotated[int, typer.Option("--size-bytes", min=0, help="Compressed.")] = 0,
    team: Annotated[str, typer.Option("--team", help="Its team; else the whole installation.")] = "",
    description: Annotated[str, typer.Option("--description")] = "",
    mirrors: Mirrors = None,
    acceleration: Annotated[str, typer.Option("--acceleration", help=f"{ACCELERATIONS}; with --why.")] = "",
    why: Annotated[str, typer.Option("--why", help="Why a cluster should load it so.")] = "",
) -> None:
    """Add an image to the catalogue; what it contains never changes."""
    context = context_of(typer_context)
    body: dict[str, Any] = {
        "name": name,
        "reference": reference,
        "engine": engine,
        "engine_version": engine_version,
        "cuda_version": cuda,
        "least_driver": driver,
        "code": code,
        "formats": formats,
        "runs_on_cpu": cpu,
        "size_bytes": size_bytes,
        "team": team,
        "description": description,
        "mirrors": mirrors_of(mirrors),
        "acceleration": acceleration,
        "acceleration_why": why,
    }
    document = context.client.create(at("images"), {key: value for key, value in body.items() if value})
    context.show(document)
    context.say(f"{name} is in the catalogue: {document['reference']}")


@app.command("fit")
def fit(
    typer_context: typer.Context,
    engine: Engine,
    gpu: Annotated[str, typer.Option("--gpu", help="As `nvidia-smi` names it, or none.")] = "",
    driver: Annotated[str, typer.Option("--driver", help="Its driver, such as 550.54.14.")] = "",
    version: Annotated[
        str, typer.Option("--model", metavar="MODEL[:VERSION]", help="What is to run; the newest version.")
    ] = "",
    engine_version: Annotated[str, typer.Option("--engine-version", help="0.10, or >=0.10.")] = "",
    team: Annotated[str, typer.Option("--team", help="Only what its releases may use.")] = "",
) -> None:
    """Which image fits best, and why each of the others is not it; exit 1 when none fits."""
    context = context_of(typer_context)
    model, name = split_version(version) if ":" in version else (version, "")
    asked = {"gpu": gpu, "driver": driver, "engine_version": engine_version, "team": team}
    document = context.client.get(at("images", "fit"), engine=engine, model=model, version=name, **asked)
    context.show(document)
    _tell(context, document)
    if document["best"] is None:
        others = document["others"]
        fault = (
            f"No image of {engine} fits." if others else f"There is no image of {engine} in the catalogue."
        )
        raise CommandFailed(fault, Exit.FAILED)


def _tell(context: Context, document: dict[str, Any]) -> None:
    if best := document["best"]:
        context.say(f"{best['image']}: {best['why']}")
    for one in document["others"]:
        context.say(f"not {one['image']}: {one['why']}")
