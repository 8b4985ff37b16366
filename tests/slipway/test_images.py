"""`slipway images`: the catalogue from a terminal or a pipeline."""

import pytest
from django.utils import timezone

from accounts.states import Role
from images.models import ImagePullFailure, RuntimeImage
from images.states import Acceleration
from slipway.cli.image_changes import ACCELERATIONS
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
    assert said.out == f"vllm-10 added to the catalogue: {reference('vllm-10')}\n"
    assert RuntimeImage.objects.get().code == ["9.0"]
    assert "vllm-10" in olga("images", "list", "--engine", "vllm").out
    assert olga(*JSON, "images", "list", "--shared").document == []
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
    assert "No vllm image is compatible." in none.err


def test_an_image_gets_and_loses_mirrors_one_by_one(olga: Terminal) -> None:
    image("vllm-10", team("speech"), mirrors={"eu": "eu.example.org/vllm", "us": "us.example.org/vllm"})
    edit = ("images", "edit", "vllm-10")
    said = olga(*edit, "--mirror", "ap=ap.example.org/vllm", "--without-mirror", "us", "--description", "New")
    assert said.status == 0, said
    row = RuntimeImage.objects.get()
    assert row.mirrors == {"eu": "eu.example.org/vllm", "ap": "ap.example.org/vllm"}
    assert row.description == "New"
    assert olga(*edit, "--acceleration", "prepull", "--why", "It is large.").status == 0
    assert olga(*edit, "--acceleration", "").status == 0
    row.refresh_from_db()
    assert (row.acceleration, row.acceleration_why, len(row.mirrors)) == ("", "", 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "Nothing to change"),
        (("--without-mirror", "mars"), "its mirrors: none"),
        (("--mirror", "eu"), "REGION=REPOSITORY"),
        (("--acceleration", "prepull"), "acceleration_why"),
        (("--acceleration", "magic", "--why", "x"), "acceleration"),
    ],
)
def test_changes_of_an_image_that_cannot_be_are_wrong_usage(
    olga: Terminal, options: tuple[str, ...], words: str
) -> None:
    row = image("vllm-10", team("speech"))
    said = olga("images", "edit", "vllm-10", *options)
    assert (said.status, words in said.err) == (2, True), said
    revision = row.revision
    row.refresh_from_db()
    assert row.revision == revision


def test_what_an_image_needs_and_why_it_is_deprecated_is_shown(olga: Terminal) -> None:
    image("vllm-10", team("speech"), cuda_version="12.8", code=["9.0"], least_driver="")
    olga("images", "deprecate", "vllm-10", "--reason", "It leaks.")
    shown = " ".join(olga("images", "show", "vllm-10").out.split())
    assert "minimum driver as CUDA 12.8 requires compute capabilities 9.0 CPU only not supported" in shown
    assert "by olga: It leaks." in shown
    none = olga("images", "fit", "--engine", "tgi", "--gpu", "H100")
    assert (none.status, "The catalogue has no tgi image." in none.err) == (1, True)


def test_the_help_names_every_way_to_load_an_image_sooner() -> None:
    assert ACCELERATIONS.split(", ") == [value for value in Acceleration.values if value]


def test_an_image_is_deprecated_for_another_and_reinstated(olga: Terminal) -> None:
    image("vllm-9", team("speech"), engine_version="0.9.1")
    image("vllm-10", team("speech"))
    assert olga("images", "deprecate", "vllm-9").status == 2
    said = olga("images", "deprecate", "vllm-9", "--replaced-by", "vllm-10", "--reason", "Slow.")
    assert said.out == "vllm-9 is deprecated. Use vllm-10.\n"
    assert olga("images", "deprecate", "vllm-10", "--replaced-by", "none", "--reason", "x").status == 2
    assert olga("images", "reinstate", "vllm-9", "--reason", "Needed.").out == "vllm-9 is current.\n"
    again = olga("images", "reinstate", "vllm-9", "--reason", "Needed.")
    assert (again.status, "not deprecated" in again.err) == (1, True)


def test_a_failed_pull_is_shown_and_cleared(olga: Terminal) -> None:
    row, at = image("vllm-10", team("speech")), timezone.now()
    ImagePullFailure.objects.create(image=row, cluster="west", reason="not found", since=at, at=at)
    assert "west" in olga("images", "list").out
    assert "not found" in olga("images", "show", "vllm-10").out
    clear = ("images", "clear-pull-failure", "vllm-10", "--cluster", "west", "--reason", "Back.")
    assert [olga(*clear).status, olga(*clear).status] == [0, 1]
    assert not ImagePullFailure.objects.exists()


def test_a_trial_is_noted_and_counts_in_what_fits(olga: Terminal) -> None:
    image("vllm-10", team("speech"))
    note = ("images", "trial", "vllm-10", "--gpu", "H100")
    assert olga(*note, "--works", "--driver", "550.54.15").out == "vllm-10 works on H100.\n"
    silent = olga(*note, "--fails")
    assert (silent.status, "words" in silent.err) == (2, True)
    assert olga(*note).status == 2
    assert olga(*note, "--fails", "--words", "It hangs.", "--architecture", "LlamaForCausalLM").status == 0
    assert "It hangs." in olga("images", "show", "vllm-10").out
    developer = token_of(person("dan", speech=Role.DEVELOPER))
    assert olga(*note, "--works", token=developer).status == 7
