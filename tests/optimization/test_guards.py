"""Bad input of recipes: each is refused with its cause, and nothing is stored."""

import errno
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from common import disk
from common.jobs.run import Running
from optimization import inputs
from optimization.errors import InvalidOptimization
from optimization.items import LEAST_ITEMS
from optimization.programs.checks import tokenizer_fault
from optimization.programs.making import make
from optimization.recipes.local import checkpoints
from tests.optimization.test_crash_points import RunScene
from tests.optimization.test_crash_points import scene as scene
from tests.optimization.tiny import sentences, write_items


class SilentRun(Running):
    def __init__(self) -> None:
        """Report nowhere."""

    def report(self, progress: Any) -> None:
        pass


@pytest.fixture
def model(taught: Path, tmp_path: Path) -> Path:
    return shutil.copytree(taught, tmp_path / "model")


def refusal(model: Path, monkeypatch: pytest.MonkeyPatch, program: str = "rounding", **more: Any) -> str:
    order = {
        "module": f"optimization.recipes.local.{program}",
        "source": str(model),
        "output": str(model.parent / "output"),
        "parameters": {"bits": 8},
        "seed": 0,
        "calibration": None,
        **more,
    }
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(order)))
    return str(make(SilentRun()).get("refused", ""))


def without_a_shard(model: Path) -> None:
    index = {"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))


def with_nan(model: Path) -> None:
    tensors = load_file(model / "model.safetensors")
    name = next(one for one in tensors if one.endswith("norm.weight"))
    tensors[name][0] = float("nan")
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})


def with_another_tokenizer(model: Path) -> None:
    told = json.loads((model / "tokenizer.json").read_text())
    told["model"]["vocab"]["far"] = 128_000
    (model / "tokenizer.json").write_text(json.dumps(told))


def without_config(model: Path) -> None:
    (model / "config.json").unlink()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (without_a_shard, "names model-00002-of-00002.safetensors"),
        (with_nan, "are no numbers"),
        (with_another_tokenizer, "a token 128,000"),
        (without_config, "no config.json"),
    ],
)
def test_files_that_cannot_be_right_are_refused_by_their_cause(
    model: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None], said: str
) -> None:
    harm(model)
    assert said in refusal(model, monkeypatch)


def test_an_architecture_without_such_channels_is_not_pruned(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "intermediate_size": None}))
    calibration = write_items(tmp_path / "texts.jsonl", sentences(20, seed=1))
    given = {"parameters": {"share": 0.5, "recovery_steps": 0}, "calibration": str(calibration)}
    assert "intermediate_size" in refusal(model, monkeypatch, "pruning", **given)


def test_scores_of_different_tokenizers_are_not_compared(model: Path, taught: Path) -> None:
    assert tokenizer_fault(taught, model) == ""
    with_another_tokenizer(model)
    assert "different tokenizers" in tokenizer_fault(taught, model)


def test_a_training_goes_on_without_checkpoints_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = checkpoints.TrainingCheckpoints(tmp_path / "checkpoint")
    kept.keep({"step": 1})

    def full(*_given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    kept.keep({"step": 2})
    assert kept.read() == {"step": 1}
    assert [one.name for one in (tmp_path / "checkpoint").iterdir()] == [checkpoints.FILE]


@pytest.mark.django_db
def test_a_disk_with_too_little_room_is_told_before_anything_starts(
    scene: RunScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = disk.room()
    monkeypatch.setattr(disk, "room", lambda: replace(room, free=-(10**9)))
    with pytest.raises(InvalidOptimization) as refused:
        scene.begin()
    assert "GB of disk" in str(refused.value.fields["recipe"])


@pytest.mark.django_db
def test_sets_that_tell_nothing_end_the_run_with_their_fault(scene: RunScene, tmp_path: Path) -> None:
    row = scene.begin()
    tested = tmp_path / "files/test.jsonl"
    few = f"needs {LEAST_ITEMS} items"
    for items, said in ((sentences(3, seed=1), few), ([], few)):
        write_items(tested, items)
        assert said in inputs.fault_of(row)
    texts = sentences(40, seed=1)
    write_items(tested, texts)
    row.calibration_version, row.calibration = row.test_version, {"label": "sets:v1", "path": "texts.jsonl"}
    for items, said in ((texts[:3], "has 3 texts"), ([], "has 0 texts"), (texts[30:], "10 items are in")):
        write_items(tmp_path / "files/texts.jsonl", items)
        assert said in inputs.fault_of(row)
