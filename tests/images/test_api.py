"""The catalogue over REST."""

from typing import Any

import orjson
import pytest

from accounts.states import Role
from images.models import ImageTrial, RuntimeImage
from tests.cast import Api, api, person, team
from tests.clusters.world import version_of
from tests.images.builders import digest_of, image, reference

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def olga() -> Api:
    return api(person("olga", speech=Role.OPERATOR))


def read(answer: Any) -> Any:
    return orjson.loads(answer.content)


def test_an_image_is_added_read_changed_and_deprecated(olga: Api) -> None:
    body = {
        "name": "vllm-10",
        "team": "speech",
        "engine": "vllm",
        "engine_version": "0.10.2",
        "reference": reference("vllm-10"),
        "cuda_version": "12.8",
        "code": ["sm_90", "compute_90", "8.0"],
        "formats": ["safetensors"],
    }
    made = olga.post("images/", body)
    assert made.status_code == 201, made.content
    assert made["Location"] == "/api/v1/images/vllm-10/"
    assert read(made)["code"] == ["8.0", "9.0", "9.0+PTX"]
    stale = olga.patch("images/vllm-10/", {"description": "x"}, If_Match='"9-x"')
    assert stale.status_code == 412
    mirrored = olga.patch(
        "images/vllm-10/", {"mirrors": {"eu": "eu.example.org/vllm"}}, If_Match=made["ETag"]
    )
    assert read(mirrored)["mirrors"] == {"eu": f"eu.example.org/vllm@{digest_of('vllm-10')}"}
    assert olga.patch("images/vllm-10/", {"mirrors": read(mirrored)["mirrors"]}).status_code == 200
    assert read(olga.post("images/vllm-10/deprecate/", {"reason": "CVE"}))["state"] == "deprecated"
    assert read(olga.get("images/?state=current"))["results"] == []
    assert read(olga.post("images/vllm-10/reinstate/", {"reason": "fine"}))["state"] == "current"


def test_what_is_wrong_is_told_at_its_field(olga: Api) -> None:
    body = {"name": "a", "team": "speech", "engine": "vllm", "engine_version": "1", "cuda_version": "12"}
    tag = olga.post("images/", body | {"reference": "registry.example.org/vllm:latest"})
    assert tag.status_code == 400
    assert "crane digest registry.example.org/vllm:latest" in read(tag)["errors"]["reference"][0]
    nobodys = olga.post("images/", body | {"reference": reference("a"), "team": "vision"})
    assert "team" in read(nobodys)["errors"]
    image("a", team("speech"))
    instead = olga.post("images/a/deprecate/", {"reason": "x", "replaced_by": "nothing"})
    assert "replaced_by" in read(instead)["errors"]


def test_the_list_is_filtered_and_asks_the_same_number_of_questions(
    olga: Api, django_assert_num_queries
) -> None:
    image("vllm-10")
    image("tgi-3", team("speech"), engine="tgi", cuda_version="13.0")
    image("hidden", team("vision"))
    assert [one["name"] for one in read(olga.get("images/?q=tgi 13"))["results"]] == ["tgi-3"]
    assert [one["name"] for one in read(olga.get("images/?shared=true"))["results"]] == ["vllm-10"]
    assert [one["name"] for one in read(olga.get("images/?engine=tgi"))["results"]] == ["tgi-3"]
    assert olga.get("images/?engine=nonsense").status_code == 400
    with django_assert_num_queries(4):
        olga.get("images/")
    for number in range(5):
        image(f"more-{number}")
    with django_assert_num_queries(4):
        olga.get("images/")


def test_fit_answers_the_choice_and_why_each_of_the_others_is_not_it(olga: Api) -> None:
    image("vllm-9", engine_version="0.9.1")
    image("vllm-10", least_driver="550")
    image("theirs", team("vision"))
    version = version_of(team("speech"), "chat:v1")
    version.model.latest = version
    version.model.save()
    asked = "images/fit/?engine=vllm&gpu=NVIDIA H100 80GB HBM3&driver=535.104.05&model=chat&team=speech"
    found = read(olga.get(asked))
    assert found["best"]["image"] == "vllm-9"
    assert found["gpus"][0]["compute_capability"] == "9.0"
    assert [one["image"] for one in found["others"]] == ["vllm-10"]
    assert found["others"][0]["refusals"] == [
        {"fact": "driver", "sentence": "needs driver 550 or newer; NVIDIA H100 80GB HBM3 has 535.104.05"}
    ]
    nothing = read(olga.get("images/fit/?engine=vllm&gpu=none"))
    assert nothing["best"] is None
    assert nothing["gpus"] == []
    assert read(olga.get("images/fit/?engine=vllm"))["gpus"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "engine"),
        ("engine=nonsense", "engine"),
        ("engine=vllm&driver=new", "driver"),
        ("engine=vllm&model=nothing", "model"),
        ("engine=vllm&version=v1", "model"),
        ("engine=vllm&team=vision", "team"),
        ("engine=vllm&grp=H100", "grp"),
    ],
)
def test_a_question_that_makes_no_sense_is_told_so(olga: Api, query: str, field: str) -> None:
    answer = olga.get(f"images/fit/?{query}")
    assert answer.status_code == 400
    assert field in read(answer)["errors"]


def test_a_trial_is_noted_and_shown_first(olga: Api) -> None:
    row = image("vllm-10", team("speech"))
    olga.post("images/vllm-10/trials/", {"gpu": "A100", "outcome": "works"})
    shown = read(olga.post("images/vllm-10/trials/", {"gpu": "H100", "outcome": "fails", "words": "hangs"}))
    assert [(one["gpu"], one["by"]) for one in shown["trials"]] == [("H100", "olga"), ("A100", "olga")]
    assert ImageTrial.objects.filter(image=row).count() == 2
    assert olga.post("images/vllm-10/trials/", {"gpu": "H100", "outcome": "fails"}).status_code == 400
    assert RuntimeImage.objects.get().revision == 1
