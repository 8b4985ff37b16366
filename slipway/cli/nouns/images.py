from pathlib import Path
from typing import Annotated, Any

import typer

from serving.engines.registry import ENGINES
from slipway.cli.context import CliContext, Columns, context_of, flag, secret_of, size
from slipway.cli.image_changes import (
    ACCELERATIONS,
    Mirrors,
    clear_pull_failure,
    deprecate,
    edit,
    mirrors_of,
    reinstate,
    trial,
)
from slipway.cli.names import split_version
from slipway.client import at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(
    help="Runtime images of workers, pinned by digest, and their compatibility.", no_args_is_help=True
)
app.command("edit")(edit)
app.command("deprecate")(deprecate)
app.command("reinstate")(reinstate)
app.command("clear-pull-failure")(clear_pull_failure)
app.command("trial")(trial)
Engine = Annotated[str, typer.Option("--engine", help=f"One of {', '.join(ENGINES)}.")]


COLUMNS: Columns = {
    "IMAGE": "name",
    "ENGINE": "engine",
    "VERSION": "engine_version",
    "CUDA": "cuda_version",
    "COMPUTE": lambda row: " ".join(row["code"]),
    "SIZE": lambda row: size(row["size_bytes"] or None),
    "STATE": "state",
    "PULL FAILED": lambda row: ", ".join(one["cluster"] for one in row["pull_failures"]),
    "TEAM": lambda row: row["team"] or "all",
}
FAILURE_COLUMNS: Columns = {"PULL FAILED ON": "cluster", "SINCE": "since", "LAST": "at", "REASON": "reason"}
TRIAL_COLUMNS: Columns = {
    "AT": "at",
    "GPU": "gpu",
    "DRIVER": "driver",
    "ARCHITECTURE": lambda row: row["architecture"] or "any",
    "RESULT": "outcome",
    "BY": "by",
    "NOTES": "words",
}


PROPOSAL_COLUMNS: Columns = {
    "IMAGE": lambda row: row["name"] or row["preset"],
    "RESULT": lambda row: "added" if row["is_added"] else row["outcome"],
    "CUDA": "cuda_version",
    "SIZE": lambda row: size(row["size_bytes"] or None),
    "REFERENCE": "reference",
}
PRESETS = "vllm, sglang, tensorrt-llm, triton, llama.cpp, llama.cpp-cpu, worker"


@app.command("list")
def list_images(
    typer_context: typer.Context,
    query: Annotated[str, typer.Option("--search", "-q", help="Part of a name, version or digest.")] = "",
    engine: Engine = "",
    team: Annotated[str, typer.Option("--team", help="Only images of this team.")] = "",
    state: Annotated[str, typer.Option("--state", help="current or deprecated.")] = "",
    shared: Annotated[
        bool | None, typer.Option("--shared/--of-teams", help="Only shared images, or only those of teams.")
    ] = None,
) -> None:
    """List images."""
    context = context_of(typer_context)
    wanted = {"q": query, "engine": engine, "team": team, "state": state, "shared": flag(shared)}
    context.each(at("images"), COLUMNS, **wanted)


@app.command("show")
def show(typer_context: typer.Context, name: str) -> None:
    """Show an image: its requirements, mirrors and trials."""
    context = context_of(typer_context)
    document = context.client.get(at("images", name))
    context.show(document)
    context.details(_told(document))
    if document["mirrors"]:
        context.table(("REGION", "MIRROR"), document["mirrors"].items())
    if document["pull_failures"]:
        context.tabulate(document["pull_failures"], FAILURE_COLUMNS)
    if document["trials"]:
        context.tabulate(document["trials"], TRIAL_COLUMNS)


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
        "minimum driver": driver or (f"as CUDA {cuda} requires" if cuda else ""),
        "compute capabilities": " ".join(image["code"]),
        "CPU only": "supported" if image["runs_on_cpu"] else "not supported",
        "supported formats": " ".join(image["formats"]),
        "state": f"deprecated {ended}" if image["deprecated_at"] else image["state"],
        "replaced by": image["replaced_by"] or "",
        "acceleration": f"{image['acceleration']}: {image['acceleration_why']}"
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
        str,
        typer.Argument(
            metavar="REPOSITORY@sha256:...",
            help="Reference with digest, as `crane digest --full-ref` prints it.",
        ),
    ],
    engine: Engine,
    engine_version: Annotated[str, typer.Option("--engine-version", help="Engine version, such as 0.10.2.")],
    cuda: Annotated[str, typer.Option("--cuda", help="CUDA version, such as 12.8.")] = "",
    driver: Annotated[
        str, typer.Option("--driver", help="Minimum driver version; default: as its CUDA version requires.")
    ] = "",
    code: Annotated[
        list[str] | None,
        typer.Option("--code", help="Compute capability, such as 9.0, sm_90 or 10.0+PTX; repeatable."),
    ] = None,
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="safetensors, gguf, onnx; repeatable.")
    ] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Runs on CPU, too.")] = False,
    size_bytes: Annotated[int, typer.Option("--size-bytes", min=0, help="Compressed size.")] = 0,
    team: Annotated[str, typer.Option("--team", help="Owner; default: shared by all teams.")] = "",
    description: Annotated[str, typer.Option("--description")] = "",
    mirrors: Mirrors = None,
    acceleration: Annotated[
        str, typer.Option("--acceleration", help=f"{ACCELERATIONS}; requires --why.")
    ] = "",
    why: Annotated[str, typer.Option("--why", help="Reason for this acceleration.")] = "",
) -> None:
    """Add an image to the catalogue."""
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
    context.tell(document, f"{name} added to the catalogue: {document['reference']}")


@app.command("refresh")
def refresh(
    typer_context: typer.Context,
    registry: Annotated[
        str, typer.Option("--registry", help="Address of the registry, with its path below which it mirrors.")
    ],
    presets: Annotated[
        list[str] | None, typer.Option("--preset", help=f"{PRESETS}; repeatable; default: all.")
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add what is new; default: propose only.")] = False,
    tag: Annotated[str, typer.Option("--tag", help="This tag of the one preset; default: the newest.")] = "",
    team: Annotated[str, typer.Option("--team", help="Owner; default: shared by all teams.")] = "",
    platform: Annotated[str, typer.Option("--platform", help="Platform whose size is read.")] = "",
    pull_secret: Annotated[
        Path | None, typer.Option("--pull-secret", help="File with a .dockerconfigjson; not stored.")
    ] = None,
) -> None:
    """Read the newest images of presets from a registry; exit 1 if one cannot be read."""
    context = context_of(typer_context)
    body: dict[str, Any] = {
        "registry": registry, "presets": presets, "add": add, "tag": tag, "team": team, "platform": platform,
        "pull_secret": secret_of(pull_secret, option="--pull-secret"),
    }  # fmt: skip
    given = {key: value for key, value in body.items() if value}
    document = context.client.create(at("images", "refresh"), given)
    context.show(document)
    rows = document["results"]
    context.tabulate(rows, PROPOSAL_COLUMNS)
    if faults := [f"{row['preset']}: {row['problem']}" for row in rows if row["problem"]]:
        raise CommandFailed(" ".join(faults), Exit.FAILED)


@app.command("fit")
def fit(
    typer_context: typer.Context,
    engine: Engine,
    gpu: Annotated[str, typer.Option("--gpu", help="GPU as `nvidia-smi` names it, or none.")] = "",
    driver: Annotated[str, typer.Option("--driver", help="Driver version, such as 550.54.14.")] = "",
    version: Annotated[
        str,
        typer.Option(
            "--model", metavar="MODEL[:VERSION]", help="Model to serve; default version: the newest."
        ),
    ] = "",
    engine_version: Annotated[
        str, typer.Option("--engine-version", help="Required engine version, such as 0.10 or >=0.10.")
    ] = "",
    team: Annotated[str, typer.Option("--team", help="Only images that this team may use.")] = "",
) -> None:
    """Check image compatibility: the best match, and why the others do not fit; exit 1 without a match."""
    context = context_of(typer_context)
    model, name = split_version(version) if ":" in version else (version, "")
    asked = {"gpu": gpu, "driver": driver, "engine_version": engine_version, "team": team}
    document = context.client.get(at("images", "fit"), engine=engine, model=model, version=name, **asked)
    context.show(document)
    _tell(context, document)
    if document["best"] is None:
        others = document["others"]
        fault = f"No {engine} image is compatible." if others else f"The catalogue has no {engine} image."
        raise CommandFailed(fault, Exit.FAILED)


def _tell(context: CliContext, document: dict[str, Any]) -> None:
    if best := document["best"]:
        context.say(f"{best['image']}: {best['why']}")
    for one in document["others"]:
        context.say(f"not {one['image']}: {one['why']}")
