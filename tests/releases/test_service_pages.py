"""The console's pages of services, over releases that really run (in memory)."""

import re
from html import unescape

import pytest

from releases.models import Release, Service
from releases.states import ReleaseState as S
from tests.releases.browsing import as_person, text_of
from tests.releases.world import Scene

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_service_shows_where_it_runs_and_how_to_ask_it(waiting: Scene) -> None:
    body = text_of(as_person("ada", waiting), f"/services/{waiting.name}/")
    assert f"/{waiting.name}/v1/chat/completions" in body
    assert body.count("2 of 2 ready") >= 2
    assert "Waiting for approval" in body


def test_a_service_of_own_code_shows_where_its_routes_are_listed(waiting: Scene) -> None:
    Service.objects.update(engine="app")
    body = text_of(as_person("ada", waiting), f"/services/{waiting.name}/")
    assert f"/{waiting.name}/openapi.json" in body
    assert "chat/completions" not in body


def test_a_promoted_release_is_taken_back_from_the_services_history(waiting: Scene) -> None:
    waiting.approve()
    promoted = waiting.run_until_state(S.PROMOTED)
    client = as_person("ada", waiting)
    assert f"/releases/{promoted.pk}/rollback/" in text_of(client, f"/services/{waiting.name}/")
    client.post(f"/releases/{promoted.pk}/rollback/", {"reason": "worse"})
    back = Release.objects.order_by("-pk")[0]
    assert back.undoes_id == promoted.pk
    assert back.version == waiting.v1


def test_a_version_is_released_from_the_service_page(scene: Scene) -> None:
    client = as_person("ada", scene)
    path = f"/services/{scene.name}/release/"
    assert "v2" in text_of(client, path)
    answer = client.post(path, {"version": scene.v2.name, "plan": "swift", "reason": "new"})
    release = Release.objects.get(version=scene.v2)
    assert answer["Location"] == f"/releases/{release.pk}/"
    assert (release.reason, release.plan_name, release.requester) == ("new", "swift", "ada")
    again = client.post(path, {"version": scene.v2.name, "plan": "swift", "reason": "new"})
    assert again.status_code == 422


def test_the_settings_of_a_service_are_kept_from_two_hands(scene: Scene) -> None:
    client = as_person("ada", scene)
    path = f"/services/{scene.name}/settings/"
    given = {
        "engine": "echo", "device": "auto", "replicas": "3", "slots": "4", "plan": "swift", "revision": "1",
        "gpus_per_worker": "2", "engine_tokens": "3", "settings": '{"a": 1}', "alias": "", "description": "",
    }  # fmt: skip
    assert client.post(path, given).status_code == 302
    scene.service.refresh_from_db()
    assert (scene.service.replicas, scene.service.settings) == (3, {"a": 1, "tokens": 3})
    assert scene.service.resources == {"gpus_per_worker": 2}
    late = client.post(path, given)
    assert late.status_code == 422
    assert "changed by someone else" in late.content.decode()
    wrong = client.post(path, given | {"settings": "[1]", "replicas": "0"})
    assert "Give a JSON object" in wrong.content.decode()


def test_a_new_service_is_created_and_a_bad_name_is_refused_at_its_field(scene: Scene) -> None:
    client = as_person("ada", scene)
    given = {
        "name": "Bad Name", "team": scene.team.name, "model": scene.v1.model.name, "version": scene.v1.name,
        "cluster": scene.cluster.name, "engine": "echo", "device": "auto", "replicas": "1", "slots": "4",
        "plan": "canary", "settings": "",
    }  # fmt: skip
    refused = client.post("/services/+new/", given)
    assert refused.status_code == 422
    assert "lower-case letters" in refused.content.decode()
    chosen = client.post("/services/+new/", given | {"choosing": "1", "settings": '{"a": 1}'})
    page = unescape(chosen.content.decode())
    assert '>\n{"a": 1}</textarea>' in page
    made = client.post("/services/+new/", given | {"name": "second"})
    assert made["Location"] == "/services/second/"
    assert Service.objects.get(name="second").created_by == "ada"


def test_all_that_is_wrong_with_a_service_is_told_at_once_at_its_fields(scene: Scene) -> None:
    given = {
        "name": "Bad Name", "team": scene.team.name, "model": scene.v1.model.name, "version": scene.v1.name,
        "cluster": scene.cluster.name, "engine": "vllm", "device": "auto", "replicas": "0", "slots": "4",
        "plan": "canary", "engine_gpu_memory_utilization": "9", "settings": '{"max-model-len": 1,}',
    }  # fmt: skip
    body = unescape(as_person("ada", scene).post("/services/+new/", given).content.decode())
    faults = {
        "id_name_error": "Use 1 to 50 lower-case letters",
        "id_replicas_error": "greater than or equal to 1",
        "id_engine_gpu_memory_utilization_error": "less than or equal to 1",
        "id_settings_error": "Not JSON, line 1, column 21",
    }
    for field, words in faults.items():
        assert re.search(rf'id="{field}">.*{re.escape(words)}', body), field


def test_another_engine_has_other_fields_and_keeps_what_was_typed(scene: Scene) -> None:
    client = as_person("ada", scene)
    path = f"/services/{scene.name}/settings/"
    typed = {"choosing": "1", "engine": "vllm", "slots": "9", "settings": '{"a": '}
    chosen = client.post(path, typed, headers={"HX-Request": "true", "HX-Target": "choices"})
    body = unescape(chosen.content.decode())
    assert 'name="engine_max_model_len"' in body
    assert 'name="engine_token_seconds"' not in body
    assert '{"a": </textarea>' in body
    assert re.search(r'name="slots" value="9"', body)
