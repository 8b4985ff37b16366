"""Sources on hubs and their syncs over REST, as pipelines use them."""

import pytest

from hubs.api.syncs import HubSyncs
from hubs.models import HubSource, HubSync
from hubs.services import syncs
from models_registry.models import Version
from models_registry.services import catalogue
from tests import cast
from tests.models_registry import builders as b
from tests.models_registry.conftest import REPO

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def begun(api: cast.Api, source: HubSource) -> int:
    answer = api.post(f"hub-sources/{source.pk}/sync/")
    assert answer.status_code == 202, answer.json()
    return int(answer.json()["id"])


def test_a_source_is_made_read_changed_and_deleted_and_keeps_its_token_to_itself(api, hubs, model) -> None:
    made = api.post("hub-sources/", {"model": "tiny", "repo_id": REPO, "token": "hf_secret"})
    assert made.status_code == 201, made.json()
    pk = made.json()["id"]
    assert made["Location"] == f"/api/v1/hub-sources/{pk}/"
    assert made.json() == {
        "id": pk,
        "model": "tiny",
        "endpoint": hubs.server.url,
        "kind": "huggingface",
        "repo_id": REPO,
        "revision": "main",
        "has_token": True,
        "allow_patterns": [],
        "ignore_patterns": [],
        "every": None,
        "due_at": None,
        "takes_notices": False,
        "release_to": "",
        "release_plan": "",
        "stuck": "",
        "last_sync": None,
        "created_at": made.json()["created_at"],
        "created_by": "ada",
    }
    changed = api.patch(
        f"hub-sources/{pk}/", {"every": 3600, "ignore_patterns": ["*.bin"]}, If_Match=made["ETag"]
    )
    assert (changed.json()["every"], changed.json()["has_token"]) == (3600, True)
    assert api.patch(f"hub-sources/{pk}/", {"every": None}, If_Match=made["ETag"]).status_code == 412
    forgotten = api.patch(f"hub-sources/{pk}/", {"token": ""})
    assert forgotten.json()["has_token"] is False
    answers = [made, changed, forgotten, api.get("hub-sources/")]
    assert not any(b"hf_secret" in answer.content for answer in answers)
    assert api.delete(f"hub-sources/{pk}/", If_Match=made["ETag"]).status_code == 412
    assert api.delete(f"hub-sources/{pk}/").status_code == 204
    assert api.get("hub-sources/").json()["results"] == []


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"model": "none", "repo_id": REPO}, 400, "model"),
        ({"model": "tiny"}, 400, "repo_id"),
        ({"model": "tiny", "repo_id": "../etc"}, 400, "repo_id"),
        ({"model": "tiny", "repo_id": REPO, "revision": "../x"}, 400, "revision"),
        ({"model": "tiny", "repo_id": REPO, "endpoint": "http://169.254.169.254"}, 400, "endpoint"),
        ({"model": "tiny", "repo_id": REPO, "every": 1}, 400, "every"),
        ({"model": "tiny", "repo_id": "acme/followed"}, 409, None),
    ],
)
def test_sources_that_cannot_be_made_say_which_field_is_wrong(
    api, hubs, actor, model, body, status, field
) -> None:
    syncs.create_hub_source(actor=actor, model=model, repo_id="acme/followed")
    answer = api.post("hub-sources/", body)
    assert answer.status_code == status, answer.json()
    assert field is None or field in answer.json()["errors"]


def test_a_sync_goes_from_202_to_done_and_its_version_names_repository_and_commit(api, hubs, source) -> None:
    pk = begun(api, source)
    assert api.get(f"hub-syncs/{pk}/").json()["state"] == "resolving"
    assert api.get(f"hub-syncs/{pk}/").json()["progress"] is None
    hubs.settle()
    done = api.get(f"hub-syncs/{pk}/").json()
    assert (done["state"], done["version"], done["repository"]) == ("done", "v1", f"{REPO}@main")
    size = sum(map(len, b.model_files().values()))
    assert (done["progress"]["bytes_done"], done["progress"]["bytes_total"]) == (size, size)
    version = api.get("models/tiny/versions/v1/").json()
    assert version["source"] == {
        "kind": "hub",
        "uri": f"hf://{REPO}@main",
        "endpoint": hubs.server.url,
        "commit": done["commit"],
        "allow_patterns": [],
        "ignore_patterns": [],
        "uploaded_by": "",
        "address": "",
        "origin": "",
    }
    assert api.get(f"hub-sources/{source.pk}/").json()["last_sync"]["version"] == "v1"


def test_a_repository_of_modelscope_is_followed_by_its_default_branch(api, hubs, model) -> None:
    hubs.server.repository(REPO).branches["master"] = hubs.server.repository(REPO).branches.pop("main")
    made = api.post("hub-sources/", {"model": "tiny", "repo_id": REPO, "kind": "modelscope"}).json()
    assert (made["kind"], made["revision"]) == ("modelscope", "master")
    pk = api.post(f"hub-sources/{made['id']}/sync/").json()["id"]
    hubs.settle()
    done = api.get(f"hub-syncs/{pk}/").json()
    assert (done["state"], done["commit"]) == ("done", hubs.server.repository(REPO).branches["master"])
    assert api.get("models/tiny/versions/v1/").json()["source"]["uri"] == f"ms://{REPO}@master"
    assert {path for path, _, _ in hubs.server.requests if path.startswith("/api/models/")} == set()
    wrong = api.post("hub-sources/", {"model": "tiny", "repo_id": REPO, "kind": "gopher"})
    assert "kind" in wrong.json()["errors"]


def test_a_version_is_made_of_a_repository_by_its_name(api, hubs, model) -> None:
    answer = api.post("models/tiny/versions/", {"source": f"hf://{REPO}@main"})
    assert answer.status_code == 202, answer.json()
    hubs.settle()
    assert api.get("models/tiny/versions/v1/").json()["state"] == "ready"
    nameless = api.post("models/tiny/versions/", {"source": "hf://"})
    assert "source" in nameless.json()["errors"]


def test_a_running_sync_is_paused_resumed_cancelled_and_begun_again(api, hubs, source) -> None:
    pk = begun(api, source)
    hubs.worker(start=lambda job: None).sweep()
    paused = api.post(f"hub-syncs/{pk}/pause/", {"reason": "the line is needed"})
    assert (paused.status_code, paused.json()["state"]) == (202, "paused")
    assert paused.json()["reason"] == "By ada. the line is needed"
    assert api.post(f"hub-syncs/{pk}/pause/").status_code == 409
    assert api.post(f"hub-sources/{source.pk}/sync/").status_code == 409
    assert api.post(f"hub-syncs/{pk}/resume/").json()["state"] == "fetching"
    assert api.post(f"hub-syncs/{pk}/cancel/").json()["state"] == "cancelled"
    assert api.post(f"hub-syncs/{pk}/retry/").json()["state"] == "resolving"
    hubs.settle()
    assert HubSync.objects.get(pk=pk).state == "done"


def test_a_sync_tells_what_it_waits_for_while_it_fetches(api, hubs, source) -> None:
    pk = begun(api, source)
    hubs.worker(start=lambda job: None).sweep()
    before = HubSyncs().changed(pk, "")[0].id
    Version.objects.update(reason="The hub asks to wait 30 s: too many requests (429).")
    assert "wait 30 s" in api.get(f"hub-syncs/{pk}/").json()["reason"]
    assert "wait 30 s" in api.get(f"hub-sources/{source.pk}/").json()["last_sync"]["reason"]
    (event,) = HubSyncs().changed(pk, before)
    assert "wait 30 s" in event.data["reason"]


def test_the_lists_are_filtered_and_show_only_ones_own(api, hubs, actor, source, model) -> None:
    pk = begun(api, source)
    other = catalogue.create_model(actor=actor, team=cast.team("vision"), name="other")
    syncs.create_hub_source(actor=actor, model=other, repo_id="acme/other")
    named = [one["repo_id"] for one in api.get("hub-sources/?model=tiny").json()["results"]]
    assert named == [REPO]
    assert [one["repo_id"] for one in api.get("hub-sources/?q=other").json()["results"]] == ["acme/other"]
    assert len(api.get("hub-syncs/?state=resolving&state=fetching").json()["results"]) == 1
    assert api.get("hub-syncs/?state=done").json()["results"] == []
    assert api.get(f"hub-syncs/?source={source.pk}&model=tiny").json()["results"][0]["id"] == pk
    stranger = cast.api(cast.person("eve", other="admin"))
    assert stranger.get("hub-sources/").json()["results"] == []
    assert stranger.get("hub-syncs/").json()["results"] == []
    assert stranger.get(f"hub-syncs/{pk}/").status_code == 404


def test_a_list_asks_the_same_number_of_questions_for_any_number_of_sources(
    api, hubs, actor, source, model, django_assert_num_queries
) -> None:
    syncs.start_sync(actor=actor, source=source)
    api.get("hub-sources/")
    with django_assert_num_queries(4):
        api.get("hub-sources/")
    for number in range(4):
        one = syncs.create_hub_source(actor=actor, model=model, repo_id=f"acme/m{number}")
        syncs.start_sync(actor=actor, source=one)
    with django_assert_num_queries(4):
        assert len(api.get("hub-sources/").json()["results"]) == 5


def test_events_follow_a_sync_to_its_end(api, hubs, source) -> None:
    pk = begun(api, source)
    (first,) = HubSyncs().changed(pk, "")
    assert (first.data["state"], first.last) == ("resolving", False)
    assert HubSyncs().changed(pk, first.id) == []
    hubs.settle()
    (last,) = HubSyncs().changed(pk, first.id)
    assert (last.data["state"], last.last) == ("done", True)
