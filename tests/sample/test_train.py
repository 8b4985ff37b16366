"""Training makes versions that a worker can serve, once."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.sample import artefacts, train
from controlplane.sample.artefacts import SampleArtefacts
from tests.serving.workers import PROJECT, running

pytestmark = pytest.mark.process

SECONDS = 1.5


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> SampleArtefacts:
    """Trained for a moment by the real command."""
    out = tmp_path_factory.mktemp("sample")
    command = [
        sys.executable,
        "-m",
        "controlplane.sample.train",
        "--out",
        str(out),
        "--seconds",
        str(SECONDS),
    ]
    run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"v1 {out / 'v1'}\nv2 {out / 'v2'}\n"
    found = artefacts.find(out, ("v1", "v2"), seconds=SECONDS)
    assert found is not None
    return found


def refuse_to_train(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        pytest.fail("it trained again")

    monkeypatch.setattr(train, "_train", fail)


def out_of(sample: SampleArtefacts) -> Path:
    return sample.versions["v1"].parent


def test_a_version_is_in_hugging_face_layout(sample: SampleArtefacts) -> None:
    for directory in sample.versions.values():
        names = {path.name for path in directory.iterdir()}
        assert {
            "README.md",
            "config.json",
            "generation_config.json",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
        } <= names
        config = json.loads((directory / "config.json").read_text())
        assert config["architectures"] == ["LlamaForCausalLM"]
        assert json.loads((directory / "tokenizer.json").read_text())["decoder"]["type"] == "ByteLevel"


def test_the_second_goes_on_from_the_first_and_is_better(sample: SampleArtefacts) -> None:
    first, second = sample.figures["v1"], sample.figures["v2"]
    assert 0 < first["steps"] <= second["steps"]
    assert second["loss"] < first["loss"]


def test_the_card_states_the_real_figures(sample: SampleArtefacts) -> None:
    card = (sample.versions["v2"] / "README.md").read_text()
    for figures in sample.figures.values():
        assert f"| {figures['steps']:,} | {figures['tokens']:,} | {figures['loss']:.3f} |" in card


@pytest.mark.stack
def test_a_worker_serves_it(sample: SampleArtefacts, tmp_path: Path) -> None:
    with running(tmp_path / "log", engine="transformers", model_dir=sample.versions["v2"]) as worker:
        worker.until_ready()
        chat = worker.post(
            "/v1/chat/completions", messages=[{"role": "user", "content": "What is a class?"}], max_tokens=8
        ).json()
        assert chat["choices"][0]["finish_reason"] in ("length", "stop")
        refused = worker.post("/v1/chat/completions", messages=[{"role": "tool", "content": "x"}])
        assert "knows the roles user, assistant and system" in refused.json()["error"]["message"]


def test_what_is_there_is_not_made_again(sample: SampleArtefacts, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_train(monkeypatch)
    assert train.ensure(out_of(sample), seconds=SECONDS) == sample


def test_finding_it_again_does_not_wait_for_torch(sample: SampleArtefacts) -> None:
    code = (
        "import sys; from controlplane.sample.train import main;"
        f"main(['--out', {str(out_of(sample))!r}, '--seconds', '{SECONDS}']);"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)


def test_a_sample_that_was_cut_short_does_not_do_for_more_time(sample: SampleArtefacts) -> None:
    assert artefacts.find(out_of(sample), ("v1", "v2"), seconds=SECONDS * 2) is None


def test_the_bad_version_is_added_without_training(
    sample: SampleArtefacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_train(monkeypatch)
    out = shutil.copytree(out_of(sample), tmp_path / "sample")
    bad = train.ensure(out, seconds=SECONDS, bad=True).versions["v3"]
    good = out / "v2"
    assert (bad / "model.safetensors").read_bytes() == (good / "model.safetensors").read_bytes()
    settings = json.loads((bad / "slipway.json").read_text())["serving"]
    assert (settings["delay_ms"], settings["fail_share"]) == (300, 0.1)
    assert "bad on purpose" in (bad / "README.md").read_text()
    assert artefacts.find(out, ("v1", "v2"), seconds=SECONDS) is not None


@pytest.mark.parametrize("harm", ["change", "remove", "add", "manifest"])
def test_a_harmed_sample_is_not_taken_for_whole(sample: SampleArtefacts, tmp_path: Path, harm: str) -> None:
    out = shutil.copytree(out_of(sample), tmp_path / "sample")
    if harm == "change":
        (out / "v1" / "config.json").write_text("{}")
    elif harm == "remove":
        (out / "v2" / "tokenizer.json").unlink()
    elif harm == "add":
        (out / "v2" / "more.json").write_text("{}")
    else:
        (out / artefacts.MANIFEST).write_text("{")
    assert artefacts.find(out, ("v1", "v2"), seconds=SECONDS) is None


def test_a_training_that_dies_leaves_nothing_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(scratch: Path, **_: object) -> None:
        (scratch / "v1").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "_train", die)
    with pytest.raises(KeyboardInterrupt):
        train.ensure(tmp_path, seconds=SECONDS)
    assert {path.name for path in tmp_path.iterdir()} == {".lock"}


def test_a_place_that_cannot_hold_it_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert train.main(["--out", str(file / "sample")]) == 1
    assert f"{file / 'sample'} cannot hold the sample: " in capsys.readouterr().err


def test_an_update_of_muon_is_nearly_orthogonal() -> None:
    import torch

    from controlplane.sample.model import _orthogonal

    matrices = torch.randn(3, 16, 40, generator=torch.Generator().manual_seed(1))
    singular = torch.linalg.svdvals(_orthogonal(matrices))
    assert float(singular.min()) > 0.6
    assert float(singular.max()) < 1.3
