"""Recipes for pictures: fewer steps by distillation, and the verdict on what is drawn from the same noise."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models_registry.models import Version
from optimization.accuracy import outcome_of
from optimization.items import BadItems
from optimization.models import AccuracyCheck
from optimization.picture_items import read_picture_set
from optimization.programs import environment
from optimization.programs.features import FixedFeatures, distance_parts, features_of, likeness
from optimization.recipes.diffusion.distilling import distilled
from optimization.recipes.diffusion.pipelines import Denoiser, NoiseSchedule
from optimization.speed import judge_speed, picture_ratios
from serving.runtime.rounded_networks import load_rounded
from tests.optimization.conftest import OptimizationScene

SHAPE = (1, 2, 2)


class TinyNetwork(nn.Module):
    """A network of four numbers and the time, called as diffusers' are."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 32), nn.SiLU(), nn.Linear(32, 4))

    def forward(self, noisy: Tensor, times: Tensor) -> Any:
        given = torch.cat([noisy.flatten(1), times[:, None] / 1000], 1)
        return SimpleNamespace(sample=self.layers(given).view(-1, *SHAPE))


class NoiseNetwork(TinyNetwork):
    """The same model, told as the noise that it finds."""

    def forward(self, noisy: Tensor, times: Tensor) -> Any:
        signal, strength = schedule().at(times.long())
        found = signal * super().forward(noisy, times).sample + strength * noisy
        return SimpleNamespace(sample=found)


def schedule(prediction: str = "v_prediction") -> NoiseSchedule:
    kept = torch.linspace(1e-4, 0.02, 1000).neg().add(1).cumprod(0)
    kept = torch.cat([kept, torch.ones(1)])
    return NoiseSchedule(kept.sqrt(), (1 - kept).sqrt(), prediction, clips=False)


@pytest.mark.parametrize(
    ("network", "prediction"), [(TinyNetwork, "v_prediction"), (NoiseNetwork, "epsilon")]
)
def test_a_student_of_two_steps_draws_what_its_teacher_draws_in_eight(network: Any, prediction: str) -> None:
    torch.manual_seed(1)
    teacher = Denoiser(network(), schedule(prediction))
    student, losses = distilled(
        teacher, SHAPE, steps=2, teacher_steps=8, training_steps=300, pictures=128, batch=64, seed=0,
        rate=1e-2, report=lambda *_: None,
    )  # fmt: skip
    assert len(losses) == 2
    noise, prompts = torch.randn(64, *SHAPE), torch.zeros(64, dtype=torch.long)
    wanted = teacher.drawn(noise, 8, prompts)
    apart, cut = (
        float((one.drawn(noise, 2, prompts) - wanted).norm() / wanted.norm()) for one in (student, teacher)
    )
    assert apart < 0.6 * cut


def test_the_steps_of_a_student_are_every_second_one_of_its_teacher() -> None:
    for steps in (1, 4, 8, 32):
        assert schedule().times(steps) == schedule().times(2 * steps)[::2]
    assert schedule().times(4) == [999, 749, 499, 249]


def test_the_parts_of_a_distance_are_those_of_the_energy_distance() -> None:
    draw = torch.Generator().manual_seed(3)
    made, reference = torch.randn(40, 3, generator=draw), torch.randn(50, 3, generator=draw) + 0.5
    between = torch.cdist(made, reference).mean()
    within = [torch.cdist(one, one).sum() / (len(one) * (len(one) - 1)) for one in (made, reference)]
    parts = distance_parts(made, reference)
    assert float(parts.mean()) == pytest.approx(float(2 * between - sum(within)), abs=1e-5)
    # As jackknife has them: the whole less the rest without that one.
    rest = distance_parts(made[1:], reference).mean()
    assert float(parts[0]) == pytest.approx(float(40 * parts.mean() - 39 * rest), abs=1e-4)


def test_features_tell_forms_apart_that_have_the_same_mean() -> None:
    across = torch.zeros(1, 3, 16, 16)
    across[:, :, ::2] = 1
    pictures = torch.cat([across, across.transpose(2, 3), across])
    found = features_of(pictures, FixedFeatures())
    assert likeness(found[2:], found[:1], found).item() == pytest.approx(1)
    assert (found[0] - found[1]).norm() > 0.05


@pytest.mark.parametrize(("distance", "verdict"), [(1.05, "passed"), (1.4, "failed")])
def test_a_distance_is_judged_as_a_multiple_of_the_parents(distance: float, verdict: str) -> None:
    draw = torch.Generator().manual_seed(5)
    noise = torch.randn(400, 2, generator=draw) * 0.2
    scores = [
        {"metric": "distance", "parent": -1 + float(a), "child": -distance + float(b)} for a, b in noise
    ]
    outcome = outcome_of(scores, margin_percent=10)
    assert outcome.verdict == verdict
    assert outcome.results["distance"].child == pytest.approx(distance, abs=0.03)


def test_pictures_drawn_in_turn_tell_how_much_faster_the_child_is() -> None:
    seconds = {"parent": [0.8, 0.81, 0.79, 0.8, 0.82], "child": [0.1, 0.1, 0.11, 0.1, 0.1]}
    assert judge_speed(picture_ratios(seconds), gain=5).is_passed
    assert not judge_speed(picture_ratios(seconds), gain=10).is_passed
    assert not judge_speed(
        picture_ratios({"parent": seconds["child"], "child": seconds["parent"]}), gain=1
    ).is_passed


SEEDS = [f'{{"seed": {number}}}' for number in range(20)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (SEEDS[:19], "needs 20 seeds"),
        ([*SEEDS, '{"seed": 3}'], "more than once"),
        ([*SEEDS, '{"seed": -1}'], "whole number as seed"),
        ([*SEEDS, '{"picture": "../secret.png"}'], "no picture ../secret.png"),
        ([*SEEDS, '{"picture": "set.jsonl"}'], "must be one of .png"),
        ([*SEEDS, '{"seed": 20, "prompt": "a cat"}'], "in all lines"),
    ],
)
def test_sets_of_pictures_that_cannot_be_used_are_refused(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(BadItems, match=said):
        read_picture_set(path)


def test_rounded_layers_are_read_as_codes_times_scales_with_rounded_inputs(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    class OneLayer(nn.Module):
        @classmethod
        def load_config(cls, place: Path) -> dict[str, Any]:
            return dict(json.loads((place / "config.json").read_bytes()))

        @classmethod
        def from_config(cls, config: dict[str, Any]) -> "OneLayer":
            assert config == {"width": 2}
            return cls()

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 1, bias=False)

    described = {"width": 2, "quantization_config": {"quant_method": "modelopt"}}
    (tmp_path / "config.json").write_text(json.dumps(described))
    tensors = {
        "layer.weight": torch.tensor([[2, -4]], dtype=torch.int8),
        "layer.weight_scale": torch.tensor([0.5]),
        "layer.input_scale": torch.tensor(0.25),
    }
    save_file(tensors, tmp_path / "diffusion_pytorch_model.safetensors")
    network = load_rounded(tmp_path, OneLayer, dtype=torch.float32)
    assert network.layer(torch.tensor([[0.3, 0.6]])).tolist() == [[0.25 - 2 * 0.5]]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.django_db
@pytest.mark.timeout(1200)
def test_a_distilled_pipeline_goes_from_its_start_to_its_verdict(
    shop: OptimizationScene, tmp_path_factory: pytest.TempPathFactory, settings: Any
) -> None:
    made = tmp_path_factory.mktemp("made") / "environments"
    settings.SLIPWAY_RUN_DIR = made.parent / "run"
    python = environment.environment_of("diffusion").ensure(made) / "bin" / "python"
    write = (
        "import sys, pathlib; from optimization.programs.picture_self_test import write_pipeline; "
        "write_pipeline(pathlib.Path(sys.argv[1]))"
    )
    subprocess.run([python, "-c", write, shop.root / "drawer"], check=True, timeout=120)
    shop.import_version("drawer:v1", shop.root / "drawer")
    (shop.root / "seeds").mkdir()
    (shop.root / "seeds/set.jsonl").write_text("\n".join(f'{{"seed": {number}}}' for number in range(40)))
    shop.import_version("seeds:v1", shop.root / "seeds")
    small = {"teacher_steps": 8, "steps": 2, "training_steps": 60, "pictures": 32, "batch": 8}
    row = shop.start(
        "diffusion/step-distillation", parent="drawer:v1", test="seeds:v1/set.jsonl", parameters=small,
        scenario=None, margin=40.0, gain=1.5,
    )  # fmt: skip
    row = shop.end(row, seconds=900)
    assert (row.state, row.reason) == ("passed", "")
    child = Version.objects.get(pk=row.child_id)
    assert child.lineage["libraries"]["diffusers"]
    verdict = AccuracyCheck.objects.get(run=row).verdicts.get()
    assert (verdict.metric, verdict.items, verdict.parent_value) == ("similarity", 40, 1.0)
    assert [one["name"] for one in row.speed] == ["picture_rate"]
    assert row.speed[0]["ratio"] > 2
    assert row.benchmark is None
