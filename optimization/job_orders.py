"""The program of a run's job and its inputs: paths of this host, or files that a job in a cluster fetches."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from clusters.model_files import content_of
from common.errors import Missing, WrongState
from model_store.reading import Content
from models_registry import files
from models_registry.models import Version
from optimization.inputs import draws_pictures
from optimization.models import OptimizationRun
from optimization.states import OptimizationState

MAKING, SCORING = "optimization.programs.making", "optimization.programs.scoring"
PICTURES = "optimization.programs.picture_scoring"


@dataclass(frozen=True, slots=True)
class ProgramOrder:
    """`family`: whose environment the program needs, if any; `inputs`: a version and a path in it (empty: all
    of it) by the name under which the program is told its place."""

    program: str
    family: str
    values: Mapping[str, Any]
    inputs: Mapping[str, tuple[Version, str]] = field(default_factory=dict)

    def here(self) -> dict[str, Any]:
        """Return what the program reads on this host. Raises what `files.materialise` raises."""
        places = {
            name: str(files.materialise(version) / path) for name, (version, path) in self.inputs.items()
        }
        return {**self.values, **places}

    def document(self) -> dict[str, Any]:
        """Return what `optimization.programs.in_cluster` reads; paths are of its own directory."""
        paths = {name: f"inputs/{one.pk}/{path}".rstrip("/") for name, (one, path) in self.inputs.items()}
        inputs: dict[str, list[dict[str, Any]]] = {}
        for version, path in self.inputs.values():
            listed = inputs.setdefault(str(version.pk), [])
            known = {one["path"] for one in listed}
            listed += [
                {"path": one.path, "size": one.size, "sha256": one.sha256}
                for one in files.manifest_of(version).files
                if path in ("", one.path) and one.path not in known
            ]
        return {
            "program": self.program,
            "family": self.family,
            "values": dict(self.values),
            "paths": {**paths, "output": "output"},
            "inputs": inputs,
        }


def making_order(row: OptimizationRun) -> ProgramOrder:
    """Return the order of the recipe's program. Raises WrongState when the recipe is no more."""
    recipe = row.known_recipe
    if recipe is None:
        raise WrongState(_("The recipe %(name)s has changed since. Start it again.") % {"name": row.recipe})
    inputs = {"source": (row.parent, "")}
    if row.calibration_version is not None:
        inputs["calibration"] = (row.calibration_version, str(row.calibration["path"]))
    values = {"module": recipe.module, "parameters": row.parameters, "seed": row.seed, "calibration": None}
    return ProgramOrder(MAKING, recipe.family if recipe.lock else "", values, inputs)


def scoring_order(row: OptimizationRun) -> ProgramOrder:
    """Return the order of the accuracy check on a set of items."""
    assert row.child is not None  # noqa: S101 (stored before)
    recipe = row.known_recipe
    inputs = {
        "parent": (row.parent, ""),
        "child": (row.child, ""),
        "test": (row.test_version, str(row.test["path"])),
    }
    if draws_pictures(row):
        steps = row.parameters.get("teacher_steps", row.parameters["steps"])
        more = {"steps": steps, "guidance": row.parameters.get("guidance", 1.0)}
        # Pictures to compare with, and a network that sees them, lie beside the set.
        inputs["test_files"] = (row.test_version, "")
        return ProgramOrder(PICTURES, recipe.family if recipe is not None else "", more, inputs)
    # Our own engine is asked where it will serve, else the library that made the child.
    is_ours = row.benchmark_order["engine"] == "transformers"
    family = recipe.family if recipe is not None and recipe.lock and not is_ours else ""
    return ProgramOrder(SCORING, family, {}, inputs)


def order_of(row: OptimizationRun) -> ProgramOrder:
    """Return the order of the job that works for the run now. Raises WrongState when none does."""
    if row.state == OptimizationState.RUNNING:
        return making_order(row)
    if row.state == OptimizationState.CHECKING:
        return scoring_order(row)
    raise WrongState(
        _("%(run)s is %(state)s: no job works for it.")
        % {"run": row, "state": row.get_state_display().lower()}
    )


def input_content(row: OptimizationRun, version_id: int, sha256: str) -> AbstractContextManager[Content]:
    """Return a file of the job's inputs, for reading. Raises Missing, WrongState, VersionNotDeployed."""
    for version, _path in order_of(row).inputs.values():
        if version.pk == version_id:
            return content_of(version, sha256)
    raise Missing(_("%(run)s reads no version with the id %(id)s.") % {"run": row, "id": version_id})
