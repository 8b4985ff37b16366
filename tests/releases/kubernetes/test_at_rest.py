"""A cluster in which nothing changes is left in peace: what tells of changes is not asked for them."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from clusters import watching
from clusters.backends.kubernetes.watching import CONFIRM_EVERY_SECONDS
from clusters.models import Worker
from clusters.shared_machines import shared_machines, shared_workers
from clusters.watching import ClusterWatcher
from kube.resources import PODS, Ref
from tests.patience import eventually
from tests.releases.kubernetes.world import KubernetesScene, a_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.stack]
MINUTE_SECONDS = 60
CONFIRMED_A_MINUTE = MINUTE_SECONDS / CONFIRM_EVERY_SECONDS
"""Lists of nothing, for a whole cluster: by the clock of the watcher, of which a minute here sees little."""


@pytest.fixture
def scene(settings: Any, valkey: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesScene]:
    settings.SLIPWAY_CLUSTER_BACKENDS = {"kubernetes": "tests.releases.kubernetes.world"}
    monkeypatch.setattr(watching, "GATHERED_SECONDS", 0.05)
    with a_scene() as scene:
        yield scene


@pytest.fixture
def watcher(scene: KubernetesScene) -> Iterator[ClusterWatcher]:
    watcher = ClusterWatcher()

    def is_heard() -> bool:
        watcher.look()
        workers = shared_workers(scene.cluster, scene.service.stable_deployment)
        return shared_machines(scene.cluster) is not None and workers is not None

    eventually(is_heard, every=0.2)
    yield watcher
    watcher._end(*watcher._watches)


def let_pass(scene: KubernetesScene, watcher: ClusterWatcher | None, seconds: int) -> None:
    kernel = scene.worker()
    for second in range(seconds):
        if watcher is not None and second % 5 == 0:
            watcher.look()
        kernel.sweep()
        scene.pass_(1)


def asked(scene: KubernetesScene, watcher: ClusterWatcher | None) -> Counter[str]:
    """Count the requests for each kind within a minute at rest, but for watches."""
    let_pass(scene, watcher, MINUTE_SECONDS)
    before = len(scene.transport.calls)
    let_pass(scene, watcher, MINUTE_SECONDS)
    calls = scene.transport.calls[before:]
    kinds = {"pods", "gateways", "gatewayclasses", "httproutes", "version", "nodes"}
    return Counter(
        kind
        for call in calls
        if "watch" not in call.query
        for kind in kinds & set(call.path.strip("/").split("/"))
    )


def test_a_cluster_that_is_heard_is_hardly_asked(scene: KubernetesScene, watcher: ClusterWatcher) -> None:
    counts = asked(scene, watcher)
    assert CONFIRMED_A_MINUTE <= 12
    assert counts["pods"] <= 4, counts
    assert counts["nodes"] == 0, counts
    assert counts["gateways"] + counts["gatewayclasses"] <= 12, counts
    assert counts["version"] == 0, counts


def test_one_that_is_not_heard_is_looked_at(scene: KubernetesScene) -> None:
    assert asked(scene, None)["pods"] >= 24


def test_what_changes_is_seen_at_once_all_the_same(scene: KubernetesScene, watcher: ClusterWatcher) -> None:
    stable = scene.service.stable_deployment
    let_pass(scene, watcher, 10)
    before = set(Worker.objects.values_list("uid", flat=True))
    pod = next(iter(scene.ready_pods(stable)))
    scene.client.delete(Ref(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"]))

    def is_seen() -> bool:
        let_pass(scene, None, 1)
        return set(Worker.objects.values_list("uid", flat=True)) - before

    eventually(is_seen, every=0.05)
