"""Checks of a cluster before it is trusted, and the least that it must grant."""

from collections.abc import Mapping
from itertools import count

import pytest

from clusters.backends.kubernetes.checks import WITHIN_SECONDS, checks
from clusters.backends.kubernetes.files.storage import DEFAULT_CLASS
from clusters.backends.kubernetes.rights import RIGHTS, manifest
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.states import CheckResult
from kube.base import Permission
from kube.client import KubeClient
from kube.errors import NotAuthenticated
from kube.fake.server import FakeApiServer
from kube.fake.transport import FakeTransport, failing
from kube.fake.wire import ADMIN
from kube.resources import Resource
from kube.rules import Rules
from tests.clusters.kubernetes.test_backend import SETTINGS, World
from tests.clusters.kubernetes.test_nodes import recorded


class Client(KubeClient):
    """A client whose rights a test chooses."""

    refused: frozenset[str] = frozenset()

    def version(self) -> str:
        return "v1.36.2"

    def may(
        self, verb: str, resource: Resource, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> Permission:
        asked = f"{verb} {resource.plural}{f'/{subresource}' if subresource else ''}"
        return Permission(asked not in self.refused)

    def rules(self, namespace: str) -> Rules:
        return Rules()


@pytest.fixture
def client() -> Client:
    world = World()
    world.server.plant("nodes", recorded())
    return Client(FakeTransport(world.server, user=ADMIN))


def told(
    client: KubeClient, settings: KubernetesSettings = SETTINGS
) -> Mapping[str, tuple[CheckResult, str]]:
    return {one.name: (one.result, one.detail) for one in checks(client, settings)}


def test_a_cluster_that_has_all_it_needs_passes(client: Client) -> None:
    found = told(client)
    assert found["reachable"][0] is CheckResult.PASSED
    assert found["version"] == (CheckResult.PASSED, "Kubernetes v1.36.2.")
    assert found["GPUs"] == (CheckResult.PASSED, "8 nvidia.com/gpu on 1 machine.")
    assert CheckResult.FAILED not in {result for result, _ in found.values()}


@pytest.mark.parametrize(
    ("version", "result", "words"),
    [
        ("v1.29.4", CheckResult.FAILED, "It is Kubernetes v1.29.4; Slipway needs 1.30 or newer."),
        ("v0.0.0-master+$Format:%H$", CheckResult.WARNING, "does not say which release it is"),
        ("", CheckResult.WARNING, "(no version): it must be 1.30 or newer"),
    ],
)
def test_an_old_release_is_refused_and_one_that_nobody_named_is_only_told_of(
    client: Client, monkeypatch: pytest.MonkeyPatch, version: str, result: CheckResult, words: str
) -> None:
    monkeypatch.setattr(client, "version", lambda: version)
    found = told(client)["version"]
    assert found[0] is result
    assert words in found[1]


def test_no_two_checks_are_called_the_same(client: Client) -> None:
    names = [one.name for one in checks(client, SETTINGS)]
    assert len({*names}) == len(names)


def test_each_right_that_is_missing_is_named_with_what_does_not_work_without_it(client: Client) -> None:
    client.refused = frozenset({"patch nodes", "create deployments"})
    found = told(client)
    assert found["right: write deployments"][0] is CheckResult.FAILED
    assert (
        "May not create deployments in slipway; create deployments in team-a."
        in found["right: write deployments"][1]
    )
    assert found["right: patch nodes"] == (
        CheckResult.WARNING,
        "May not patch nodes. Machines cannot be cordoned or tainted from here.",
    )


def test_a_namespace_that_is_not_there_is_named() -> None:
    client = Client(FakeTransport(FakeApiServer(), user=ADMIN))
    assert told(client)["namespace team-a"] == (
        CheckResult.FAILED,
        "There is no namespace team-a: create it first.",
    )


def test_one_that_does_not_answer_is_asked_nothing_else(client: Client) -> None:
    unreachable = KubeClient(FakeTransport(FakeApiServer(), user=ADMIN))
    unreachable.transport.reachable = False  # type: ignore[attr-defined]
    assert [one.result for one in checks(unreachable, SETTINGS)] == [CheckResult.FAILED]


def test_one_that_does_not_know_who_asks_is_asked_nothing_else(client: Client) -> None:
    class Stranger(Client):
        def version(self) -> str:
            raise NotAuthenticated("Unauthorized")

    found = told(Stranger(client.transport))
    assert [(name, result) for name, (result, _) in found.items()] == [
        ("reachable", CheckResult.PASSED),
        ("credentials", CheckResult.FAILED),
    ]


def test_one_that_answers_slowly_is_not_waited_for(client: Client) -> None:
    seconds = count(step=WITHIN_SECONDS / 4)
    found = {one.name: one.detail for one in checks(client, SETTINGS, clock=lambda: next(seconds))}
    assert found["right: get pods/log"].startswith("May ")
    assert found["extensions"] == "Not looked at: the cluster answers too slowly."


def test_storage_classes_are_named_and_the_default_is_told(client: Client) -> None:
    assert told(client)["storage classes"][0] is CheckResult.WARNING
    client.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "nvme", "annotations": {DEFAULT_CLASS: "true"}},
            "provisioner": "local.csi",
        }
    )
    detail = told(client)["storage classes"][1]
    assert detail == "nvme (local.csi, the default)."


def test_what_cannot_be_looked_at_is_no_word_on_the_rest(client: Client) -> None:
    client.transport.faults.append(failing(503, "etcdserver: leader changed"))  # type: ignore[attr-defined]
    results = [one.result for one in checks(client, SETTINGS)]
    assert results.count(CheckResult.WARNING) >= 1
    assert len(results) > 10


def test_the_manifest_grants_what_is_checked_and_nothing_else() -> None:
    documents = {one["kind"]: one for one in manifest(namespace="ml", features=())}
    granted = {
        (verb, name)
        for kind in ("ClusterRole", "Role")
        for rule in documents[kind]["rules"]
        for name in rule["resources"]
        for verb in rule["verbs"]
    }
    assert ("create", "deployments") in granted
    assert ("patch", "nodes") not in granted
    assert ("create", "pods/eviction") not in granted
    everything = manifest(namespace="ml")
    asked = {(verb, right.kind) for right in RIGHTS for verb in right.verbs}
    assert asked == {
        (verb, name)
        for one in everything
        for rule in one.get("rules", ())
        for name in rule["resources"]
        for verb in rule["verbs"]
    }
    assert not any("*" in str(one) for one in everything)
