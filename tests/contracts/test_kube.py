"""What an API server of Kubernetes keeps, asked through our client: the fake always, a real one with
KUBECONFIG.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kube.base import ChangeType, Propagation
from kube.errors import (
    AlreadyExists,
    EvictionRefused,
    HistoryLost,
    InvalidObject,
    NotAuthenticated,
    NotFound,
    NotServed,
    ObjectChanged,
    OwnedByOthers,
)
from kube.resources import CONFIG_MAPS, DEPLOYMENTS, DISRUPTION_BUDGETS, LEASES, PODS, Ref, Resource
from tests.contracts.kube_rigs import KUBECONFIG, FakeRig, RealRig, Rig, pod

pytestmark = pytest.mark.any_database
WIDGETS = Resource("nobody.example", "v1", "Widget", "widgets")
NOWHERE = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def real() -> Iterator[RealRig]:
    if not KUBECONFIG:
        pytest.skip("no API server: KUBECONFIG is not set")
    rig = RealRig()
    yield rig
    rig.stop()


@pytest.fixture(params=["fake", "real"])
def rig(request: pytest.FixtureRequest) -> Rig:
    return FakeRig() if request.param == "fake" else request.getfixturevalue("real")


@pytest.fixture
def namespace(rig: Rig) -> str:
    return rig.namespace()


def config(namespace: str, name: str = "settings", **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def ref(namespace: str, name: str = "settings") -> Ref:
    return Ref(CONFIG_MAPS, name, namespace)


def deployment(namespace: str, **container: Any) -> dict[str, Any]:
    labels = {"app": "model"}
    spec = {"containers": [{"name": "server", "image": "registry.example/model:1"} | container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "model", "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def test_an_apply_again_changes_nothing(rig: Rig, namespace: str) -> None:
    first = rig.client.apply(config(namespace, a="1"))
    again = rig.client.apply(config(namespace, a="1"))
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert rig.client.get(ref(namespace)) == again


def test_what_an_apply_no_longer_names_goes(rig: Rig, namespace: str) -> None:
    rig.client.apply(config(namespace, a="1", b="2"))
    assert rig.client.apply(config(namespace, b="2"))["data"] == {"b": "2"}


def test_an_apply_takes_no_field_from_another_manager(rig: Rig, namespace: str) -> None:
    rig.client.apply(config(namespace, a="1"))
    with pytest.raises(OwnedByOthers) as refused:
        rig.other_manager().apply(config(namespace, a="2", b="1"))
    assert [(one.manager, one.field) for one in refused.value.claims] == [('"slipway"', ".data.a")]
    forced = rig.other_manager().apply(config(namespace, a="2"), force=True)
    assert forced["data"] == {"a": "2"}
    # Who lost it and no longer names it changes nothing.
    assert rig.client.apply(config(namespace))["data"] == {"a": "2"}


def test_fields_of_others_survive_an_apply(rig: Rig, namespace: str) -> None:
    rig.client.apply(deployment(namespace))
    sidecar = {"name": "sidecar", "image": "registry.example/sidecar:1"}
    theirs = deployment(namespace)
    theirs["spec"]["template"]["spec"]["containers"] = [sidecar]
    rig.other_manager().apply(theirs)
    env = [{"name": "A", "value": "1"}]
    containers = rig.client.apply(deployment(namespace, env=env))["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == ["server", "sidecar"]
    assert containers[0]["env"] == env


def test_an_apply_never_resurrects_what_was_given_with_its_uid(rig: Rig, namespace: str) -> None:
    made = rig.client.apply(config(namespace, a="1"))
    rig.client.delete(ref(namespace))
    again = config(namespace, a="1")
    again["metadata"]["uid"] = made["metadata"]["uid"]
    with pytest.raises(ObjectChanged):
        rig.client.apply(again)
    with pytest.raises(NotFound):
        rig.client.get(ref(namespace))


def test_a_dry_run_leaves_nothing(rig: Rig, namespace: str) -> None:
    assert rig.client.apply(config(namespace, a="1"), dry_run=True)["data"] == {"a": "1"}
    rig.client.create(config(namespace, a="1"), dry_run=True)
    with pytest.raises(NotFound):
        rig.client.get(ref(namespace))


def test_a_field_that_the_kind_does_not_have_is_refused(rig: Rig, namespace: str) -> None:
    with pytest.raises(InvalidObject, match="imagee: field not declared in schema"):
        rig.client.apply(deployment(namespace, imagee="x"))


def test_what_is_wrong_with_a_body_is_said_by_field(rig: Rig, namespace: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        rig.client.apply(deployment(namespace, image=""))
    assert [one.field for one in refused.value.faults] == ["spec.template.spec.containers[0].image"]


def test_a_name_is_given_once(rig: Rig, namespace: str) -> None:
    rig.client.create(config(namespace, a="1"))
    with pytest.raises(AlreadyExists) as refused:
        rig.client.create(config(namespace, a="1"))
    assert not refused.value.is_going


def test_a_patch_for_an_older_version_is_refused(rig: Rig, namespace: str) -> None:
    made = rig.client.create(config(namespace, a="1"))
    rig.client.patch(ref(namespace), {"data": {"a": "2"}})
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    with pytest.raises(ObjectChanged):
        rig.client.patch(ref(namespace), stale)
    assert rig.client.get(ref(namespace))["data"] == {"a": "2"}


def test_a_json_patch_whose_test_fails_does_nothing(rig: Rig, namespace: str) -> None:
    rig.client.create(config(namespace, a="1"))
    held = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "2"},
    ]
    assert rig.client.patch(ref(namespace), held)["data"] == {"a": "2"}
    with pytest.raises(InvalidObject):
        rig.client.patch(ref(namespace), held)
    with pytest.raises(NotFound):
        rig.client.patch(ref(namespace, "missing"), {"data": {}})


def test_a_change_of_the_spec_is_a_generation_and_one_of_labels_is_none(rig: Rig, namespace: str) -> None:
    rig.client.apply(deployment(namespace))
    place = Ref(DEPLOYMENTS, "model", namespace)
    labelled = rig.client.patch(place, {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    paused = rig.client.patch(place, {"spec": {"paused": True}})
    assert paused["metadata"]["generation"] == 2


def test_the_status_has_a_door_of_its_own(rig: Rig, namespace: str) -> None:
    rig.client.create(pod(namespace, "one", {}, node="nowhere"))
    place = Ref(PODS, "one", namespace)
    assert rig.client.patch(place, {"status": {"message": "m"}})["status"].get("message") is None
    told = rig.client.patch(
        place, {"status": {"message": "m"}, "spec": {"priority": 9}}, subresource="status"
    )
    assert (told["status"]["message"], told["spec"]["priority"]) == ("m", 0)


def test_a_deletion_is_for_the_object_that_was_meant(rig: Rig, namespace: str) -> None:
    made = rig.client.create(config(namespace, a="1"))
    with pytest.raises(ObjectChanged):
        rig.client.delete(ref(namespace), uid=NOWHERE)
    with pytest.raises(ObjectChanged):
        rig.client.delete(ref(namespace), version="1")
    rig.client.delete(ref(namespace), uid=made["metadata"]["uid"])
    with pytest.raises(NotFound):
        rig.client.delete(ref(namespace))


def test_a_finalizer_holds_an_object_until_it_is_taken_off(rig: Rig, namespace: str) -> None:
    held = config(namespace, a="1")
    held["metadata"]["finalizers"] = ["slipway.io/hold"]
    rig.client.create(held)
    rig.client.delete(ref(namespace))
    assert "deletionTimestamp" in rig.client.get(ref(namespace))["metadata"]
    with pytest.raises(AlreadyExists) as refused:
        rig.client.create(config(namespace))
    assert refused.value.is_going
    rig.client.patch(ref(namespace), {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        rig.client.get(ref(namespace))


def test_a_foreground_deletion_waits_for_what_is_owned(rig: Rig, namespace: str) -> None:
    held = deployment(namespace)
    rig.client.apply(held)
    place = Ref(DEPLOYMENTS, "model", namespace)
    rig.client.patch(place, {"metadata": {"finalizers": ["slipway.io/hold"]}})
    rig.client.delete(place, propagation=Propagation.FOREGROUND)
    found = rig.client.get(place)["metadata"]
    assert "foregroundDeletion" in found["finalizers"]
    assert found["generation"] == 2
    rig.client.patch(place, {"metadata": {"finalizers": None}})


def test_a_list_has_all_pages_and_one_version(rig: Rig, namespace: str) -> None:
    for number in range(7):
        rig.client.create(config(namespace, f"c{number}", n=str(number)))
    listing = rig.client.list(CONFIG_MAPS, namespace=namespace, fields="metadata.name!=kube-root-ca.crt")
    assert [one["metadata"]["name"] for one in listing.items] == [f"c{number}" for number in range(7)]
    assert all(one["kind"] == "ConfigMap" for one in listing.items)
    assert int(listing.version) >= int(listing.items[-1]["metadata"]["resourceVersion"])


def test_selectors_choose(rig: Rig, namespace: str) -> None:
    for name, tier in (("a", "gpu"), ("b", "cpu")):
        item = config(namespace, name)
        item["metadata"]["labels"] = {"tier": tier}
        rig.client.create(item)
    found = rig.client.list(CONFIG_MAPS, namespace=namespace, labels="tier in (gpu)")
    assert [one["metadata"]["name"] for one in found.items] == ["a"]
    with pytest.raises(InvalidObject):
        rig.client.list(CONFIG_MAPS, namespace=namespace, fields="data.a=1")


def test_a_namespace_that_is_not_there_has_nothing_and_takes_nothing(rig: Rig) -> None:
    assert rig.client.list(CONFIG_MAPS, namespace="nowhere").items == ()
    with pytest.raises(NotFound, match="nowhere"):
        rig.client.create(config("nowhere"))


def test_a_watch_tells_of_every_change_once(rig: Rig, namespace: str) -> None:
    start = rig.client.list(CONFIG_MAPS, namespace=namespace).version
    made = rig.client.create(config(namespace, a="1"))
    rig.client.patch(ref(namespace), {"data": {"a": "2"}})
    rig.client.patch(ref(namespace), {"data": {"a": "2"}})
    rig.client.delete(ref(namespace))
    with rig.client.watch(
        CONFIG_MAPS, since=start, namespace=namespace, fields="metadata.name=settings", for_seconds=1
    ) as changes:
        seen = [change for change in changes if change.type is not ChangeType.BOOKMARK]
    assert [change.type for change in seen] == [ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED]
    assert seen[0].version == made["metadata"]["resourceVersion"]
    # Of each its own version: a watch that goes on from a deletion does not tell of it again.
    versions = [int(change.version) for change in seen]
    assert versions == sorted(set(versions))


def test_leaving_a_selector_is_told_as_a_deletion(rig: Rig, namespace: str) -> None:
    item = config(namespace)
    item["metadata"]["labels"] = {"tier": "gpu"}
    rig.client.create(item)
    start = rig.client.list(CONFIG_MAPS, namespace=namespace).version
    rig.client.patch(ref(namespace), {"metadata": {"labels": {"tier": "cpu"}}})
    rig.client.patch(ref(namespace), {"metadata": {"labels": {"tier": "gpu"}}})
    with rig.client.watch(
        CONFIG_MAPS, since=start, namespace=namespace, labels="tier=gpu", for_seconds=1
    ) as changes:
        seen = [change for change in changes if change.type is not ChangeType.BOOKMARK]
    assert [change.type for change in seen] == [ChangeType.DELETED, ChangeType.ADDED]
    # As it was: what it has become is not told.
    assert seen[0].item["metadata"]["labels"] == {"tier": "gpu"}
    assert int(seen[0].version) < int(seen[1].version)


def test_a_quiet_watch_ends_without_an_error(rig: Rig, namespace: str) -> None:
    start = rig.client.list(LEASES, namespace=namespace).version
    with rig.client.watch(LEASES, since=start, namespace=namespace, for_seconds=2) as changes:
        seen = list(changes)
    # A server on an etcd before 3.5 has no bookmark to give.
    assert all(change.type is ChangeType.BOOKMARK for change in seen)
    assert all(int(change.version) >= int(start) for change in seen)


def test_a_watch_hears_what_happens_meanwhile(rig: Rig, namespace: str) -> None:
    start = rig.client.list(CONFIG_MAPS, namespace=namespace).version
    rig.client.transport.longest_watch_seconds = 5  # type: ignore[attr-defined]
    with rig.client.watch(
        CONFIG_MAPS, since=start, namespace=namespace, fields="metadata.name=settings", for_seconds=5
    ) as changes:
        threading.Timer(0.1, rig.client.create, [config(namespace)]).start()
        assert next(changes).type is ChangeType.ADDED


def test_a_version_that_is_forgotten_is_said(rig: Rig, namespace: str) -> None:
    start = rig.client.list(CONFIG_MAPS, namespace=namespace).version
    rig.client.create(config(namespace))
    if not rig.forget_history():
        pytest.skip("a real server forgets when it likes")
    with (
        pytest.raises(HistoryLost),
        rig.client.watch(CONFIG_MAPS, since=start, namespace=namespace) as changes,
    ):
        list(changes)


def budget(namespace: str, least: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget", "namespace": namespace},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "model"}}},
    }


def observed(rig: Rig, namespace: str, **status: int) -> None:
    """Write the status of a budget as the disruption controller would: it need not run."""
    told = {"observedGeneration": 1, "expectedPods": 1, **status}
    rig.client.patch(Ref(DISRUPTION_BUDGETS, "budget", namespace), {"status": told}, subresource="status")


def test_an_eviction_obeys_the_budget(rig: Rig, namespace: str) -> None:
    rig.run_pod(namespace, "one", {"app": "model"})
    place = Ref(PODS, "one", namespace)
    rig.client.create(budget(namespace, 1))
    with pytest.raises(EvictionRefused, match="still being processed") as refused:
        rig.client.evict(place)
    assert refused.value.retry_after_seconds == 10
    observed(rig, namespace, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    with pytest.raises(EvictionRefused, match="needs 1 healthy pods and has 1 currently") as refused:
        rig.client.evict(place)
    assert refused.value.retry_after_seconds is None
    observed(rig, namespace, disruptionsAllowed=1, currentHealthy=1, desiredHealthy=0)
    rig.client.evict(place, dry_run=True)
    assert "deletionTimestamp" not in rig.client.get(place)["metadata"]
    rig.client.evict(place, grace_seconds=7)
    assert rig.client.get(place)["metadata"]["deletionGracePeriodSeconds"] == 7
    rig.client.delete(place, grace_seconds=0)
    with pytest.raises(NotFound):
        rig.client.evict(place)


def test_an_eviction_of_another_pod_of_the_name_spends_the_budget_all_the_same(
    rig: Rig, namespace: str
) -> None:
    rig.run_pod(namespace, "one", {"app": "model"})
    rig.client.create(budget(namespace, 1))
    observed(rig, namespace, disruptionsAllowed=1, currentHealthy=1, desiredHealthy=0)
    with pytest.raises(ObjectChanged):
        rig.client.evict(Ref(PODS, "one", namespace), uid=NOWHERE)
    status = rig.client.get(Ref(DISRUPTION_BUDGETS, "budget", namespace))["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["one"]


def test_what_we_may_do_is_told(rig: Rig, namespace: str) -> None:
    assert rig.client.may("patch", DEPLOYMENTS, namespace=namespace).allowed


def test_a_credential_that_is_unknown_is_said(rig: Rig, namespace: str) -> None:
    with pytest.raises(NotAuthenticated):
        rig.stranger().get(ref(namespace))


def test_what_the_cluster_does_not_serve_is_said(rig: Rig, namespace: str) -> None:
    assert rig.client.serves(DEPLOYMENTS)
    assert not rig.client.serves(WIDGETS)
    with pytest.raises(NotServed):
        rig.client.list(WIDGETS, namespace=namespace)


def test_a_log_of_no_pod_is_not_found(rig: Rig, namespace: str) -> None:
    with pytest.raises(NotFound):
        rig.client.logs(Ref(PODS, "missing", namespace), lines=10)


def test_a_name_cannot_leave_its_place_in_an_address(rig: Rig, namespace: str) -> None:
    for name in ("../secrets/x", "a/b", "a?b", "", "..", "a%2fb"):
        with pytest.raises(InvalidObject):
            rig.client.get(ref(namespace, name))


def test_a_cluster_tells_its_version(rig: Rig) -> None:
    assert rig.client.version().startswith("v")
