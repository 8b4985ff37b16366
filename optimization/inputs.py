"""Files of versions that a run reads: test and calibration sets."""

import hashlib
from pathlib import Path
from typing import Annotated, Any

from django.utils.translation import gettext as _
from pydantic import AfterValidator, StringConstraints

from accounts.models import Team
from models_registry import files
from models_registry.errors import CodeNotAllowed
from models_registry.exemptions import check_code
from models_registry.models import Version, VersionFile
from models_registry.states import VersionState
from optimization.items import (
    LEAST_CALIBRATION,
    LEAST_ITEMS,
    SCORER,
    SIMILARITY,
    BadItems,
    EvalItem,
    read_items,
)
from optimization.models import OptimizationRun
from optimization.picture_items import read_picture_set
from optimization.scorer_files import is_scorer, read_scorer
from optimization.task_files import documents_of_test, is_task_file, read_task, text_digests


class NoSuchItemFile(ValueError):
    """The text says what to name."""


def parts_of(named: str) -> tuple[str, str, str]:
    """Return model, version and path of `model:version/path`. Raises NoSuchItemFile."""
    label, _slash, path = named.strip().partition("/")
    model, _colon, name = label.partition(":")
    if not (model and name and path) or len(named.split()) != 1:
        raise NoSuchItemFile(_("Name a file of a version: model:version/path, such as tests:v1/items.jsonl."))
    return model, name, path


def _is_named(named: str) -> str:
    parts_of(named)
    return named


ItemFileName = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=150), AfterValidator(_is_named)
]
"""`model:version/path`, which need not be there."""


def item_file(team: Team, named: str) -> tuple[Version, dict[str, Any]]:
    """Return the version of `model:version/path` and `{label, path, sha256}`. Raises NoSuchItemFile."""
    model, name, path = parts_of(named)
    label = f"{model}:{name}"
    version = Version.objects.filter(
        model__team=team, model__name=model, name=name, state=VersionState.READY
    ).first()
    if version is None:
        raise NoSuchItemFile(
            _("Team %(team)s has no ready version %(label)s.") % {"team": team, "label": label}
        )
    file = VersionFile.objects.filter(version=version, path=path).first()
    if file is None:
        raise NoSuchItemFile(_("%(version)s has no file %(path)s.") % {"version": version, "path": path})
    # Of a task file, or a scorer, with all that may lie beside it.
    content = f"{file.sha256} {version.digest}" if is_task_file(path) or is_scorer(path) else ""
    sha256 = hashlib.sha256(content.encode()).hexdigest() if content else file.sha256
    return version, {"label": label, "path": path, "sha256": sha256}


def test_path(row: OptimizationRun) -> Path:
    """Return the test set on this host. Raises what `files.materialise` raises."""
    return files.materialise(row.test_version) / str(row.test["path"])


def calibration_path(row: OptimizationRun) -> Path | None:
    """Return the calibration set on this host. Raises what `files.materialise` raises."""
    if row.calibration_version is None:
        return None
    return files.materialise(row.calibration_version) / str(row.calibration["path"])


def fault_of(row: OptimizationRun) -> str:
    """Return what is wrong with the sets of a run; empty: nothing."""
    try:
        kinds, digests = _test_items(row)
        calibration = calibration_path(row)
        texts = read_items(calibration) if calibration else None
        if is_scorer(row.test["path"]):
            check_code(row.test_version)
    except (BadItems, CodeNotAllowed) as error:
        return str(error)
    return _few(kinds) or ("" if texts is None else _unfit(texts, digests))


def draws_pictures(row: OptimizationRun) -> bool:
    recipe = row.known_recipe
    return recipe is not None and recipe.makes == "pictures"


def task_of(row: OptimizationRun) -> dict[str, Any] | None:
    """Return the task file that is the run's test set; None: it is a set of items. Raises BadItems and what
    `files.materialise` raises."""
    if not is_task_file(row.test["path"]):
        return None
    return read_task(test_path(row), root=files.materialise(row.test_version))


def _test_items(row: OptimizationRun) -> tuple[list[str], set[str]]:
    """Return the kind of each item of the test set, and digests of its texts."""
    if (task := task_of(row)) is not None:
        documents = documents_of_test(task)
        return [task["task"]] * len(documents), text_digests(documents)
    if is_scorer(row.test["path"]):
        prompts = read_scorer(test_path(row))
        return [SCORER] * len(prompts), text_digests(prompts)
    if draws_pictures(row):
        found = read_picture_set(test_path(row)).items
        texts = [{"prompt": one.prompt} for one in found if one.prompt]
        return [SIMILARITY] * len(found), text_digests(texts)
    items = read_items(test_path(row))
    return [one.metric for one in items], {one.digest for one in items}


def _few(items: list[str]) -> str:
    by_metric: dict[str, int] = {}
    for item in items:
        by_metric[item] = by_metric.get(item, 0) + 1
    few = [f"{name}: {count}" for name, count in by_metric.items() if count < LEAST_ITEMS]
    if items and not few:
        return ""
    return _("The test set needs %(least)s items of each kind; it has %(few)s.") % {
        "least": LEAST_ITEMS,
        "few": ", ".join(few) or 0,
    }


def _unfit(texts: list[EvalItem], tested: set[str]) -> str:
    if len(texts) < LEAST_CALIBRATION:
        return _("The calibration set has %(count)s texts; %(least)s are needed.") % {
            "count": len(texts),
            "least": LEAST_CALIBRATION,
        }
    if both := len({one.digest for one in texts} & tested):
        return _(
            "%(both)s items are in the calibration set and in the test set: the check would be of what was "
            "learnt. Take them out of one."
        ) % {"both": both}
    return ""
