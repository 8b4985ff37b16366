"""LoRA adapters of a service: who may load which, what workers are told, and what a release makes of it."""

import time
from typing import Any

import orjson
import pytest
import redis
from django.conf import settings as django_settings

from accounts.models import User
from clusters.models import Cluster, Deployment, Worker
from common.live import shared
from common.models import AuditRecord
from models_registry import references
from models_registry.models import Version
from releases.models import ServiceAdapter
from releases.states import ReleaseState as S
from tests.cast import Api, api
from tests.clusters.world import adapter_of
from tests.releases.browsing import as_person, text_of
from tests.releases.world import Scene

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.any_database,
    pytest.mark.usefixtures("valkey"),
]


@pytest.fixture
def adaptable(scene: Scene) -> Scene:
    """A service whose engine loads adapters; `pirate:v1` and `pirate:v2` are some."""
    scene.service.engine = "transformers"
    scene.service.save(update_fields=["engine"])
    return scene


def ada_of_team() -> Api:
    """Over REST, the developer who asks for releases."""
    return api(User.objects.get(username="ada"))


def adapter(scene: Scene, label: str = "pirate:v1") -> Version:
    return adapter_of(scene.team, label)


def report(scene: Scene, *, problem: str = "") -> None:
    """Every worker says that it has loaded what its deployment wants, or why not."""
    with redis.Redis.from_url(django_settings.REDIS_URL) as client:
        for one in Worker.objects.select_related("deployment"):
            wanted = one.deployment.adapters.items()
            record = {
                "worker": one.uid, "started_at": 1.0,
                "pid": one.pid, "state": "ready", "reason": "", "busy": 0.0, "in_flight": 0, "slots": 4,
                "queue_depth": 0, "counters": {"requests": 9}, "full_since": None, "ttft": None,
                "adapters": [{"name": name, "version": each["label"], "problem": problem}
                             for name, each in wanted],
            }  # fmt: skip
            entry = orjson.dumps({"at": time.time(), "record": record})
            client.hset(shared._hash("heartbeats"), one.uid, entry)


def wanted(deployment: str) -> dict[str, str]:
    return {name: one["label"] for name, one in Deployment.objects.get(name=deployment).adapters.items()}


def test_an_adapter_reaches_workers_that_run_and_those_of_the_next_release(adaptable: Scene) -> None:
    scene = adaptable
    ada = ada_of_team()
    path = f"services/{scene.name}/adapters/"
    before = [one.pid for one in scene.world.observe(scene.service.stable_deployment)]
    loaded = ada.put(f"{path}pirate/", {"version": str(adapter(scene)), "reason": "talk"})
    assert (loaded.status_code, loaded.json()["loaded"], loaded.json()["workers"]) == (202, 0, 2)
    scene.run_for(2)
    assert wanted(scene.service.stable_deployment) == {"pirate": "pirate:v1"}
    assert [one.pid for one in scene.world.observe(scene.service.stable_deployment)] == before
    report(scene)
    assert [(one["name"], one["loaded"]) for one in ada.get(path).json()] == [("pirate", 2)]
    assert references.uses([adapter(scene).pk]) == {adapter(scene).pk: [f"service {scene.name} (adapter)"]}

    ada.put(f"{path}pirate/", {"version": str(adapter(scene, "pirate:v2"))})
    assert ada.get(path).json()[0]["loaded"] == 0  # the workers still have the version before
    release = scene.start()
    scene.run_until(lambda: bool(scene.world.observe(release.candidate_deployment)))
    assert wanted(release.candidate_deployment) == {"pirate": "pirate:v2"}
    scene.run_for(10)
    assert scene.state() == S.RUNNING  # ready, but nobody has heard that it has loaded them
    report(scene)
    scene.run_until(lambda: release.steps.get(index=0).state == "done")

    assert ada.delete(f"{path}pirate/?reason=over").status_code == 204
    assert (wanted(scene.candidate), wanted(scene.stable)) == ({}, {})
    assert ada.delete(f"{path}pirate/").status_code == 404
    actions = AuditRecord.objects.filter(action__startswith="service.adapter").order_by("seq")
    assert [(one.action, one.detail["version"]) for one in actions] == [
        ("service.adapter.load", "pirate:v1"),
        ("service.adapter.load", "pirate:v2"),
        ("service.adapter.unload", "pirate:v2"),
    ]


def test_a_candidate_whose_workers_refuse_an_adapter_fails(adaptable: Scene) -> None:
    scene = adaptable
    ada_of_team().put(f"services/{scene.name}/adapters/pirate/", {"version": str(adapter(scene))})
    release = scene.start()
    scene.run_until(lambda: bool(scene.world.observe(release.candidate_deployment)))
    scene.run_for(2)
    report(scene, problem="The model has no layer q_proj")
    assert "no layer q_proj" in scene.run_until_state(S.FAILED).outcome


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"engine": "echo"}, "echo loads no adapters"),
        ({"engine": "vllm"}, "enable_lora"),
        ({"kind": "kubernetes"}, "store_url"),
    ],
)
def test_where_workers_load_none_the_refusal_says_why(
    adaptable: Scene, change: dict[str, Any], named: str
) -> None:
    scene = adaptable
    if "kind" in change:
        Cluster.objects.update(**change)
    else:
        type(scene.service).objects.update(**change)
    ada = ada_of_team()
    answer = ada.put(f"services/{scene.name}/adapters/pirate/", {"version": str(adapter(scene))})
    assert (answer.status_code, named in answer.json()["detail"]) == (409, True), answer.json()


def test_pods_that_can_fetch_adapters_get_them(adaptable: Scene) -> None:
    Cluster.objects.update(kind="kubernetes", settings={"store_url": "https://slipway.example"})
    path = f"services/{adaptable.name}/adapters/pirate/"
    assert ada_of_team().put(path, {"version": str(adapter(adaptable))}).status_code == 202
    assert wanted(adaptable.service.stable_deployment) == {"pirate": "pirate:v1"}


def test_names_and_versions_that_cannot_be_meant_are_refused_at_their_field(adaptable: Scene) -> None:
    scene = adaptable
    ada = ada_of_team()

    def fault(name: str, version: str) -> list[str]:
        answer = ada.put(f"services/{scene.name}/adapters/{name}/", {"version": version})
        assert answer.status_code == 400, answer.content
        return list(answer.json()["errors"])

    good = str(adapter(scene))
    assert fault("a:b", good) == ["name"]
    assert fault(scene.name, good) == ["name"]
    assert fault("pirate", "pirate:v9") == ["version"]
    assert fault("pirate", str(scene.v2)) == ["version"]  # a whole model, no adapter
    assert not ServiceAdapter.objects.exists()


def test_the_page_loads_and_unloads(adaptable: Scene) -> None:
    scene = adaptable
    client = as_person("ada", scene)
    path = f"/services/{scene.name}/adapters/"
    refused = client.post(path, {"name": "pirate", "version": "nothing"})
    assert (refused.status_code, "of the form model:version" in refused.content.decode()) == (422, True)
    assert client.post(path, {"name": "pirate", "version": str(adapter(scene))}).status_code == 302
    scene.run_for(2)
    report(scene, problem="too high a rank")
    assert "too high a rank" in text_of(client, path)
    assert "pirate" in text_of(client, f"/services/{scene.name}/")
    assert client.post(f"{path}pirate/unload/", {"reason": "over"}).status_code == 302
    assert "No adapters are loaded" in text_of(client, path)
