"""The job that runs a recipe: reads its order from standard input, and checks what the recipe has written.

It runs in the environment of the recipe's family, without Django, and needs no network.
"""

import importlib
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from common.jobs.run import Running, read_json, run
from optimization.programs.checks import source_fault
from optimization.recipes.order import MakingOrder, RecipeRefusal
from serving.environments import hold

LIBRARIES = (
    "torch",
    "transformers",
    "safetensors",
    "llmcompressor",
    "compressed-tensors",
    "nvidia-modelopt",
    "diffusers",
)
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # On a busy machine threads that spin while they wait take ten times as long.
    "OMP_WAIT_POLICY": "passive",
}
CONFIGS = ("config.json", "model_index.json")
"""Of a model, or of a pipeline of diffusers."""
REPORT_EVERY_SECONDS = 0.5


def make(running: Running) -> Mapping[str, Any]:
    """Return what was made, or `refused` with the reason: another try would end alike."""
    told = read_json()
    if gone := missing_environment(told):
        return {"refused": gone}
    if fault := source_fault(Path(told["source"])):
        return {"refused": fault}
    output = Path(told["output"])
    # Output that an earlier try has left is of no use; a recipe goes on from its checkpoint, if it has one.
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    order = MakingOrder(
        source=Path(told["source"]),
        output=output,
        parameters=told["parameters"],
        seed=told["seed"],
        calibration=Path(told["calibration"]) if told["calibration"] else None,
        checkpoint=Path(told["checkpoint"]) if told.get("checkpoint") else None,
    )
    began, last = time.monotonic(), 0.0

    def report(stage: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= REPORT_EVERY_SECONDS:
            last = now
            running.report({"stage": stage, "done": done, "total": total, "memory_bytes": _peak_bytes()})

    report("loading", 0, 1)
    try:
        details = importlib.import_module(told["module"]).make(order, report)
        report("verifying", 0, 1)
        fault = fault_of(output)
    except (RecipeRefusal, ImportError) as error:
        return {"refused": str(error)}
    if fault:
        return {"refused": fault}
    return {
        "details": details,
        "libraries": _libraries(),
        "seconds": round(time.monotonic() - began, 2),
        "memory_bytes": _peak_bytes(),
        "size_bytes": sum(path.stat().st_size for path in output.rglob("*") if path.is_file()),
    }


def missing_environment(told: Mapping[str, Any]) -> str:
    """Keep the environment that this process runs in, if any; return why that cannot be."""
    environment = told.get("environment")
    if environment is None or hold(Path(environment)):
        return ""
    return "The environment of the recipe is gone. Start it again."


def fault_of(directory: Path) -> str:
    """Return why the output is no model; empty: it is one as far as its tensors tell."""
    import torch
    from safetensors import safe_open

    weights = sorted(directory.rglob("*.safetensors"))
    config = next((place for name in CONFIGS if (place := directory / name).is_file()), None)
    if not weights or config is None:
        return "The recipe has written no config.json or no safetensors file."
    json.loads(config.read_bytes())
    for path in weights:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                tensor = file.get_tensor(name)
                # Codes of 8 bits and less have no NaN, or are not checked by torch.
                if (
                    tensor.is_floating_point()
                    and tensor.element_size() > 1
                    and not torch.isfinite(tensor).all()
                ):
                    return f"{name} holds values that are no numbers: nothing was stored."
    return ""


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _libraries() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    os.environ.update(OFFLINE)
    sys.exit(run(make))
