"""LoRA adapters that come and go while a worker serves."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from serving.openai import TextRequest
from tests.serving.tiny_model import write_tiny_adapter, write_tiny_model
from tests.serving.transformers_rig import engine_of, request, text
from tests.serving.workers import RunningWorker, running, wait_until

pytestmark = pytest.mark.process

ASKED: dict[str, Any] = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0}


def asking(adapter: str) -> TextRequest:
    plain = request()
    return TextRequest(prompt=plain.prompt, sampling=plain.sampling, adapter=adapter)


def merged(model: Path, adapter: Path, target: Path) -> Path:
    """The model with the adapter's products added to its weights, as PEFT's `merge_and_unload` does."""
    shutil.copytree(model, target)
    weights = load_file(target / "model.safetensors")
    factors = load_file(adapter / "adapter_model.safetensors")
    config = json.loads((adapter / "adapter_config.json").read_text())
    for name in [name for name in factors if ".lora_A." in name]:
        product = factors[name.replace(".lora_A.", ".lora_B.")] @ factors[name]
        layer = name.removeprefix("base_model.model.").replace(".lora_A.weight", ".weight")
        weights[layer] = weights[layer] + product * config["lora_alpha"] / config["r"]
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    return target


@pytest.mark.parametrize("batching", ["continuous", "off"])
async def test_an_adapter_says_what_its_merged_model_says_beside_requests_without_it(
    tmp_path: Path, batching: str
) -> None:
    model = write_tiny_model(tmp_path / "m")
    pirate = write_tiny_adapter(tmp_path / "pirate", head_dim=8)
    engines = engine_of(model, batching=batching), engine_of(merged(model, pirate, tmp_path / "merged"))
    for engine in engines:
        await engine.start()
    plain, expected = [await text(engine, request()) for engine in engines]
    await engines[0].load_adapter("pirate", pirate)
    found = await asyncio.gather(*(text(engines[0], asking(name)) for name in ("pirate", "", "pirate", "")))
    assert found == [expected, plain, expected, plain]
    assert plain != expected
    for engine in engines:
        await engine.stop()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "model")


def names(worker: RunningWorker) -> set[str]:
    listed = worker.client.get(f"{worker.url}/v1/models").json()["data"]
    return {entry["id"] for entry in listed} - {"talk", "chat", "chat:v1"}


def write(file: Path, **adapters: Path) -> None:
    entries = {name: {"version": "pirate:v1", "directory": str(path)} for name, path in adapters.items()}
    file.with_suffix(".new").write_text(json.dumps(entries))
    file.with_suffix(".new").replace(file)


def test_a_worker_follows_its_file_and_a_restarted_one_begins_with_it(tmp_path: Path, model: Path) -> None:
    pirate = write_tiny_adapter(tmp_path / "pirate", head_dim=8)
    file = tmp_path / "adapters.json"
    options: dict[str, Any] = {
        "model_dir": model, "engine": "transformers", "device": "cpu", "adapters_file": file
    }  # fmt: skip
    write(file)
    with running(tmp_path / "log", **options) as worker:
        worker.until_ready()
        assert worker.post("/v1/completions", **ASKED, model="pirate").status_code == 404
        write(file, pirate=pirate)
        wait_until(lambda: names(worker) == {"pirate"}, seconds=20)
        plain = worker.post("/v1/completions", **ASKED).json()
        spoken = worker.post("/v1/completions", **ASKED, model="pirate").json()
        assert (plain["model"], spoken["model"]) == ("talk", "pirate")
        assert plain["choices"][0]["text"] != spoken["choices"][0]["text"]
        assert plain["usage"]["completion_tokens"]
    with running(tmp_path / "log2", **options) as worker:
        worker.until_ready()
        assert names(worker) == {"pirate"}
        again = worker.post("/v1/completions", **ASKED, model="pirate").json()
        assert again["choices"] == spoken["choices"]
        write(file)
        wait_until(lambda: names(worker) == set(), seconds=20)
        assert worker.post("/v1/completions", **ASKED, model="pirate").status_code == 404


@pytest.mark.parametrize(
    ("spoiled", "named"),
    [
        ({"r": 8}, "the adapter has weights of"),
        ({"use_dora": True}, "use_dora"),
        ({"peft_type": "IA3"}, "of PEFT's type LORA"),
        ({"lora_alpha": None}, "cannot be read"),
    ],
)
async def test_an_adapter_that_does_not_fit_is_refused_and_the_model_goes_on(
    tmp_path: Path, spoiled: dict[str, Any], named: str
) -> None:
    from serving.adapters import AdapterFollower
    from serving.engines.answers import TextAnswers

    pirate = write_tiny_adapter(tmp_path / "pirate", head_dim=8)
    config = json.loads((pirate / "adapter_config.json").read_text())
    (pirate / "adapter_config.json").write_text(json.dumps(config | spoiled))
    engine = engine_of(write_tiny_model(tmp_path / "m"))
    await engine.start()
    write(tmp_path / "adapters.json", pirate=pirate)
    follower = AdapterFollower(TextAnswers(engine), model_dir=tmp_path / "m", file=tmp_path / "adapters.json")
    await follower.start()
    report = follower.reports[0]
    assert (report.name, report.version) == ("pirate", "pirate:v1")
    assert named in report.problem
    assert await text(engine, request())
    await engine.stop()
