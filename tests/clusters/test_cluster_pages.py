"""Clusters in the browser: added with a file or its text, looked at, changed and removed."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from clusters.models import Cluster
from clusters.services.deployments import remove_deployment
from tests.cast import SYSTEM, client_of, person
from tests.clusters.kubernetes.kubeconfigs import EXEC, kubeconfig
from tests.clusters.test_services import ensure
from tests.clusters.world import Scene

pytestmark = pytest.mark.django_db
NEW, PART = "/fleet/clusters/+new/", {"HX-Request": "true", "HX-Target": "manifest"}
WISH = {"name": "prod", "team": "vision", "namespace": "ml", "model_files": "claim", "labels": "tier=gold"}


@pytest.fixture
def operator(settings) -> Client:
    settings.SLIPWAY_CLUSTER_BACKENDS = settings.SLIPWAY_CLUSTER_BACKENDS | {
        "kubernetes": "clusters.backends.kubernetes.configured"
    }
    return client_of(person("ada", vision="operator"))


def file_of(text: str) -> SimpleUploadedFile:
    return SimpleUploadedFile("config", text.encode())


def test_a_cluster_is_added_with_a_file_or_with_its_text(operator: Client) -> None:
    answer = operator.post(NEW, WISH | {"kubeconfig_file": file_of(kubeconfig())})
    assert answer["Location"] == "/fleet/clusters/prod/"
    row = Cluster.objects.get(name="prod")
    assert (row.team.name, row.settings, row.labels) == (
        "vision",
        {"namespace": "ml", "model_files": "claim"},
        {"tier": "gold"},
    )
    shown = operator.get("/fleet/clusters/prod/").content.decode()
    assert "tier=gold" in shown
    assert "being checked" in shown
    assert operator.post(NEW, WISH | {"name": "two", "kubeconfig": kubeconfig()}).status_code == 302
    assert "two" in operator.get("/fleet/clusters/?q=two").content.decode()


@pytest.mark.parametrize(
    ("wish", "fault"),
    [
        ({"kubeconfig": EXEC}, "signs in by the program"),
        ({}, "Give the secret kubeconfig"),
        ({"kubeconfig": kubeconfig(), "kubeconfig_file": file_of(kubeconfig())}, "not both"),
        ({"kubeconfig_file": SimpleUploadedFile("config", b"\xff\xfe")}, "it is not text"),
        ({"kubeconfig": kubeconfig(), "labels": "gold"}, "not of the form key=value"),
    ],
)
def test_what_is_wrong_stands_at_its_field_and_no_secret_comes_back(operator, wish, fault) -> None:
    answer = operator.post(NEW, WISH | wish)
    assert answer.status_code == 422
    assert fault in answer.content.decode()


def test_the_manifest_follows_what_is_ticked(operator: Client) -> None:
    assert "httproutes" in operator.get(NEW).content.decode()
    asked = {"ticked": "1", "grant-namespace": "ml", "grant-features": ["jobs"]}
    part = operator.get(NEW, asked, headers=PART).content.decode()
    assert "namespace: ml" in part
    assert "httproutes" not in part
    refused = operator.get(NEW, asked | {"grant-namespace": "No Such"}, headers=PART).content.decode()
    assert "cannot name a namespace" in refused


def test_its_page_tells_each_check_and_asks_for_another_one(operator: Client) -> None:
    operator.post(NEW, WISH | {"kubeconfig": kubeconfig()})
    Cluster.objects.update(
        checked_at=timezone.now(),
        checks=[
            {"name": "reachable", "result": "passed", "detail": "It answers."},
            {"name": "right: patch nodes", "result": "warning", "detail": "May not patch nodes."},
            {"name": "right: read pods", "result": "passed", "detail": "May list pods."},
            {"name": "namespace ml", "result": "failed", "detail": "There is no namespace ml."},
        ],
    )
    shown = operator.get("/fleet/clusters/prod/").content.decode()
    told = ("There is no namespace ml.", "May not patch nodes.", "It answers.", "1 right granted")
    places = [shown.index(one) for one in (*told, "May list pods.")]
    assert places == sorted(places), "the worst stands on top, what we may do folded below"
    assert operator.post("/fleet/clusters/prod/+check/").status_code == 302
    assert Cluster.objects.get().state == "checking"
    viewer = client_of(person("vi", vision="viewer"))
    assert "Check now" not in viewer.get("/fleet/clusters/prod/").content.decode()
    assert viewer.post("/fleet/clusters/prod/+check/", headers={"HX-Request": "true"}).status_code == 422


def test_its_settings_are_changed_and_what_the_form_lacks_stays(operator: Client) -> None:
    operator.post(NEW, WISH | {"kubeconfig": kubeconfig()})
    row = Cluster.objects.get()
    row.change(settings=row.settings | {"priority_class": "high"})
    page = "/fleet/clusters/prod/+settings/"
    assert 'value="ml"' in operator.get(page).content.decode()
    wish = {"namespace": "ml", "model_files": "claim", "region": "eu", "revision": row.revision}
    assert operator.post(page, wish).status_code == 302
    row.refresh_from_db()
    assert row.settings == {"namespace": "ml", "model_files": "claim", "priority_class": "high"}
    assert (row.region, list(row.sealed_secrets)) == ("eu", ["kubeconfig"])
    assert operator.post(page, wish).status_code == 422, "somebody changed it meanwhile"


def test_it_is_removed_once_nothing_runs_there(operator: Client) -> None:
    scene = Scene()
    Cluster.objects.update(team=scene.team)
    ensure(scene)
    page = "/fleet/clusters/local/"
    assert "deployment chat-v1" in operator.get(page).content.decode()
    headers = {"HX-Request": "true"}
    refused = operator.post(f"{page}+remove/", {"reason": "sold"}, headers=headers)
    assert "local is in use: deployment chat-v1" in refused.content.decode()
    remove_deployment(actor=SYSTEM, name="chat-v1", reason="old")
    scene.pass_(2)
    done = operator.post(f"{page}+remove/", {"reason": "sold"}, headers=headers)
    assert done["HX-Redirect"] == "/fleet/clusters/"
    assert Cluster.objects.get().state == "removing"
