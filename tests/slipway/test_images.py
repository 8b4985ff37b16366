"""`slipway images`: the catalogue from a terminal or a pipeline."""

import pytest

from accounts.states import Role
from images.models import RuntimeImage
from tests.cast import person, team, token_of
from tests.images.builders import digest_of, image, reference
from tests.slipway.conftest import Terminal

JSON = ("--output", "json")


@pytest.fixture
def olga(terminal: Terminal) -> Terminal:
    terminal.token = token_of(person("olga", speech=Role.OPERATOR))
    return terminal


def test_an_image_is_added_listed_and_shown(olga: Terminal) -> None:
    facts = ("--engine", "vllm", "--engine-version", "0.10.2", "--cuda", "12.8", "--code", "sm_90")
    where = ("--team", "speech", "--mirror", "eu=eu.example.org/vllm")
    said = olga("images", "add", "vllm-10", reference("vllm-10"), *facts, *where)
    assert said.status == 0, said
    assert said.out == f"vllm-10 is in the catalogue: {reference('vllm-10')}\n"
    assert RuntimeImage.objects.get().code == ["9.0"]
    assert "vllm-10" in olga("images", "list", "--engine", "vllm").out
    shown = olga("images", "show", "vllm-10").out
    assert f"eu.example.org/vllm@{digest_of('vllm-10')}" in shown


def test_a_tag_alone_and_a_mirror_without_a_region_are_wrong_usage(olga: Terminal) -> None:
    facts = ("--engine", "vllm", "--engine-version", "0.10.2", "--cuda", "12.8", "--team", "speech")
    said = olga("images", "add", "x", "registry.example.org/vllm:v1", *facts)
    assert said.status == 2
    assert "crane digest registry.example.org/vllm:v1" in said.err
    said = olga("images", "add", "x", reference("x"), *facts, "--mirror", "eu")
    assert said.status == 2
    assert "REGION=REPOSITORY" in said.err


def test_fit_tells_the_choice_and_ends_with_1_when_none_fits(olga: Terminal) -> None:
    image("vllm-9", engine_version="0.9.1")
    image("vllm-10", team("speech"), least_driver="550")
    asked = ("images", "fit", "--engine", "vllm", "--gpu", "NVIDIA H100 PCIe", "--driver")
    said = olga(*asked, "535.104.05")
    assert said.status == 0, said
    assert said.out.splitlines() == [
        "vllm-9: vllm 0.9.1 with CUDA 12.4 is the only one that fits NVIDIA H100 PCIe "
        "(compute capability 9.0, driver 535.104.05).",
        "not vllm-10: needs driver 550 or newer; NVIDIA H100 PCIe has 535.104.05.",
    ]
    none = olga(*JSON, *asked, "470.57")
    assert none.status == 1
    assert none.document["best"] is None
    assert "No image of vllm fits." in none.err
