"""A service without a named cluster goes where its rule says, and its page says why."""

from typing import Any

import pytest
from django.utils import timezone

from clusters.models import Cluster
from releases.models import Release, Service
from tests.cast import Api, person, token_of
from tests.releases.browsing import as_person, text_of
from tests.releases.world import Scene

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def api(scene: Scene) -> Api:
    now = timezone.now()
    Cluster.objects.update(surveyed_at=now, checked_at=now, region="eu")
    Cluster.objects.create(name="far", kind="kubernetes", region="us", surveyed_at=now, checked_at=now)
    return Api(token_of(person("eve", speech="admin")))


def wanted(scene: Scene, **how: Any) -> dict[str, Any]:
    return {"name": "fresh", "model": "story", "version": "v1", "engine": "echo"} | how


def test_it_is_chosen_once_and_the_service_keeps_why(scene, api) -> None:
    answer = api.post("services/", wanted(scene, cluster_rule={"region": "eu"}))
    assert answer.status_code == 202, answer.content
    told = answer.json()
    assert (told["cluster"], told["cluster_rule"]) == ("local", {"region": "eu"})
    assert told["cluster_choice"] == [
        {"cluster": "local", "fits": True, "says": "It fits, and 0 GPUs are free there: the most."},
        {"cluster": "far", "fits": False, "says": "Its region is us, not eu."},
    ]


def test_where_none_fits_each_says_why_and_no_service_is_made(scene, api) -> None:
    answer = api.post("services/", wanted(scene, cluster_rule={"gpu": "H100"}))
    assert answer.status_code == 400
    assert answer.json()["errors"]["cluster_rule"] == [
        "No cluster fits.",
        "far: It has no H100.",
        "local: It has no H100.",
    ]
    assert not Service.objects.filter(name="fresh").exists()


def test_a_cluster_and_a_rule_together_are_refused(scene, api) -> None:
    answer = api.post("services/", wanted(scene, cluster="local", cluster_rule={"region": "eu"}))
    assert answer.status_code == 400
    assert "Name a cluster, or give a rule." in str(answer.json())
    assert api.post("services/", wanted(scene)).json()["cluster_rule"] is None


def test_the_page_of_the_service_says_why_the_cluster_was_chosen(scene) -> None:
    considered = [{"cluster": "local", "fits": True, "says": "It fits, and 4 GPUs are free there."}]
    Service.objects.update(cluster_rule={}, cluster_choice=considered)
    shown = text_of(as_person("ada", scene), f"/services/{scene.name}/")
    assert "local was chosen by a rule" in shown
    assert "It fits, and 4 GPUs are free there." in shown


def test_a_rule_is_written_in_the_browser_which_says_what_it_picks(scene, api) -> None:
    client = as_person("ada", scene)
    given = {
        "name": "fresh", "team": scene.team.name, "model": "story", "version": "v1", "cluster": "",
        "engine": "echo", "device": "auto", "replicas": "1", "slots": "4", "plan": "canary", "settings": "",
        "rule_region": "eu", "rule_labels": "",
    }  # fmt: skip
    picked = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "picked"}
    shown = client.post("/services/+new/", given | {"choosing": "1"}, **picked).content.decode()
    assert "The rule picks local" in shown
    assert "far: Its region is us, not eu." in shown
    refused = client.post("/services/+new/", given | {"rule_region": "moon"})
    assert refused.status_code == 422
    assert "No cluster fits." in refused.content.decode()
    assert (
        "Write KEY=VALUE" in client.post("/services/+new/", given | {"rule_labels": "gold"}).content.decode()
    )
    assert client.post("/services/+new/", given).status_code == 302
    made = Service.objects.get(name="fresh")
    assert (made.cluster.name, made.cluster_rule) == ("local", {"region": "eu"})
    for page in (f"/services/{made.name}/settings/", f"/releases/{made_release(made)}/"):
        assert "local was chosen by a rule" in text_of(client, page)


def made_release(service: Service) -> int:
    return Release.objects.get(service=service).pk
