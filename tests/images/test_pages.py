"""The pages about images, as a signed-in person gets them."""

import pytest
from django.test import Client

from accounts.states import Role
from images.models import ImageTrial, RuntimeImage
from tests.cast import person, team
from tests.images.builders import digest_of, image, reference

pytestmark = pytest.mark.django_db

PART = {"HX-Request": "true"}


@pytest.fixture
def browser() -> Client:
    client = Client()
    client.force_login(person("olga", speech=Role.OPERATOR))
    return client


def text_of(answer) -> str:
    return answer.content.decode()


def test_the_list_shows_images_and_narrows_as_one_types(browser, django_assert_num_queries) -> None:
    image("vllm-10")
    image("tgi-3", team("speech"), engine="tgi")
    assert "/images/vllm-10/" in text_of(browser.get("/images/"))
    part = browser.get("/images/?q=tgi", headers=PART | {"HX-Target": "listing"})
    assert "/images/tgi-3/" in text_of(part)
    assert "vllm-10" not in text_of(part)
    assert "<html" not in text_of(part)
    shared = browser.get("/images/?team=null", headers=PART | {"HX-Target": "listing"})
    assert "tgi-3" not in text_of(shared)
    with django_assert_num_queries(7):
        browser.get("/images/")


def test_an_image_is_added_by_its_form_which_keeps_what_was_typed(browser) -> None:
    body = {
        "name": "vllm-10",
        "team": "speech",
        "engine": "vllm",
        "engine_version": "0.10.2",
        "reference": "registry.example.org/vllm:latest",
        "cuda_version": "12.8",
        "code": "8.0, sm_90",
        "formats": ["safetensors"],
        "size": "9800",
        "mirrors": "eu eu.example.org/vllm\n",
    }
    tag = browser.post("/images/+new/", body)
    assert tag.status_code == 422
    assert "crane digest registry.example.org/vllm:latest" in text_of(tag)
    assert 'value="0.10.2"' in text_of(tag)
    made = browser.post("/images/+new/", body | {"reference": reference("vllm-10")})
    assert made["Location"] == "/images/vllm-10/"
    row = RuntimeImage.objects.get()
    assert (row.code, row.size_bytes) == (["8.0", "9.0"], 9_800_000_000)
    page = text_of(browser.get("/images/vllm-10/"))
    assert f"eu.example.org/vllm@{digest_of('vllm-10')}" in page
    assert "525.60.13 or newer" in page
    everybodys = browser.post("/images/+new/", body | {"team": "", "reference": reference("x")})
    assert everybodys.status_code == 422


def test_an_image_is_changed_deprecated_reinstated_and_tried(browser) -> None:
    row = image("vllm-10", team("speech"))
    image("vllm-11", team("speech"))
    assert 'value="1"' in text_of(browser.get("/images/vllm-10/+settings/"))
    body = {"description": "", "mirrors": "eu", "acceleration": "", "revision": "1"}
    assert "names no repository" in text_of(browser.post("/images/vllm-10/+settings/", body))
    body |= {
        "mirrors": "eu eu.example.org/vllm",
        "acceleration": "prepull",
        "acceleration_why": "Always used.",
    }
    assert browser.post("/images/vllm-10/+settings/", body)["Location"] == "/images/vllm-10/"
    late = browser.post("/images/vllm-10/+settings/", body)
    assert "was changed by someone else" in text_of(late)
    wish = {"reason": "CVE", "replaced_by": "vllm-11"}
    browser.post("/images/vllm-10/+deprecate/", wish, headers=PART)
    assert "Deprecated: use vllm-11." in text_of(browser.get("/images/vllm-10/"))
    browser.post("/images/vllm-10/+reinstate/", {"reason": "no"}, headers=PART)
    said = browser.post("/images/vllm-10/+trials/", {"gpu": "H100", "outcome": "fails"}, headers=PART)
    assert "Say how it fails" in text_of(said)
    browser.post(
        "/images/vllm-10/+trials/", {"gpu": "H100", "outcome": "works", "words": "fine"}, headers=PART
    )
    assert ImageTrial.objects.get().by == "olga"
    row.refresh_from_db()
    assert (row.deprecated_at, row.acceleration) == (None, "prepull")


def test_the_panel_says_which_image_fits_and_why_no_other_does(browser) -> None:
    image("vllm-9", engine_version="0.9.1")
    image("vllm-10", least_driver="550")
    assert "Image compatibility" in text_of(browser.get("/images/+fit/"))
    asked = "/images/+fit/?engine=vllm&gpu=NVIDIA+H100+80GB+HBM3&driver=535.104.05"
    part = text_of(browser.get(asked, headers=PART | {"HX-Target": "answer"}))
    assert "vllm 0.9.1 with CUDA 12.4 is the only one that fits" in part
    assert "Needs driver 550 or newer; NVIDIA H100 80GB HBM3 has 535.104.05." in part
    assert "<html" not in part
    assert "is no version" in text_of(browser.get("/images/+fit/?engine=vllm&driver=new"))
    assert "No image of this engine" in text_of(browser.get("/images/+fit/?engine=tgi"))


def test_the_search_box_finds_an_image_by_its_digest(browser) -> None:
    image("vllm-10")
    assert "/images/vllm-10/" in text_of(browser.get(f"/search/?q={digest_of('vllm-10')[:19]}"))


def test_another_teams_image_is_not_there_and_a_viewer_changes_nothing(browser) -> None:
    image("theirs", team("vision"))
    image("ours", team("speech"))
    assert browser.get("/images/theirs/").status_code == 404
    viewer = Client()
    viewer.force_login(person("vic", speech=Role.VIEWER))
    page = text_of(viewer.get("/images/ours/"))
    assert "Deprecate" not in page
    refused = viewer.post("/images/ours/+deprecate/", {"reason": "x"}, headers=PART)
    assert "You may not operate the fleet" in text_of(refused)
    assert RuntimeImage.objects.get(name="ours").deprecated_at is None
