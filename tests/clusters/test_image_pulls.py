"""Times of image pulls are heard from kubelets, kept and shown."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.states import Role
from clusters.backends.kubernetes.events import event_of
from clusters.backends.kubernetes.watching import EventWatch
from clusters.backends.pulls import ObservedPull, pull_of, seconds_of
from clusters.image_pulls import percentile
from clusters.models import Cluster, ImagePull, Node
from clusters.services.image_pulls import record_pulls
from tests.cast import client_of, person, team
from tests.images.builders import image, reference

pytestmark = [pytest.mark.django_db, pytest.mark.every_database]
IMAGE = reference("vllm-10")


def event(message: str, *, host: str = "gpu-1", uid: str = "u1", **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"uid": "e1"},
        "involvedObject": {"kind": "Pod", "name": "chat-0", "uid": uid},
        "reason": "Pulled",
        "type": "Normal",
        "message": message,
        "source": {"component": "kubelet", "host": host},
        "lastTimestamp": timezone.now().isoformat(),
        **fields,
    }


def pulled(seconds: str = "12.5s", **fields: Any) -> dict[str, Any]:
    said = f'Successfully pulled image "{IMAGE}" in {seconds} (1m2.25s including waiting). '
    return event(said + "Image size: 9800000000 bytes.", **fields)


def test_a_kubelets_words_are_read() -> None:
    found = pull_of(event_of(pulled()))
    assert found is not None
    assert (found.machine, found.pod_uid, found.reference) == ("gpu-1", "u1", IMAGE)
    assert (found.seconds, found.waited_seconds, found.size_bytes) == (12.5, 62.25, 9_800_000_000)
    older = pull_of(event_of(event(f'Successfully pulled image "{IMAGE}" in 850ms')))
    assert older is not None
    assert (older.seconds, older.waited_seconds, older.size_bytes) == (0.85, 0.85, 0)


@pytest.mark.parametrize(
    "other",
    [
        event(f'Container image "{IMAGE}" already present on machine'),
        pulled() | {"reason": "Pulling"},
        pulled() | {"involvedObject": {"kind": "Node", "name": "gpu-1"}},
        pulled(host=""),
    ],
)
def test_what_tells_of_no_pull_is_none(other: dict[str, Any]) -> None:
    assert pull_of(event_of(other)) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h2m3.5s", 3723.5), ("850ms", 0.85), ("90\u00b5s", 9e-05), ("", 0.0)]
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


def test_pulls_are_handed_on_once() -> None:
    events = EventWatch()
    events.changed(None, event_of(pulled()))
    assert len(events.pulls()) == 1
    assert events.pulls() == []


def observed(machine: str, seconds: float, **fields: Any) -> ObservedPull:
    found = pull_of(event_of(pulled(host=machine, uid=f"{machine}-{seconds}")))
    assert found is not None
    return replace(found, seconds=seconds, **fields)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(name="west", kind="kubernetes", team=team("speech"))


def test_pulls_are_kept_once_by_digest_and_for_a_time(cluster: Cluster) -> None:
    by_tag = observed("gpu-1", 3.0, reference="registry.example.org/vllm:v1")
    old = observed("gpu-1", 4.0, at=timezone.now() - timedelta(days=91))
    for _ in range(2):
        record_pulls(cluster, [observed("gpu-1", 12.5), by_tag, old])
    assert [row.seconds for row in ImagePull.objects.all()] == [12.5]


def test_the_pages_of_image_and_machine_show_them(cluster: Cluster) -> None:
    image("vllm-10")
    node = Node.objects.create(cluster=cluster, uid="n1", name="gpu-1", seen_at=timezone.now())
    record_pulls(cluster, [observed("gpu-1", 12.0), observed("gpu-2", 30.0), observed("gpu-3", 90.0)])
    browser = client_of(person("olga", speech=Role.OPERATOR))
    shown = browser.get("/images/vllm-10/").content.decode()
    assert "/fleet/clusters/west/" in shown
    assert "30.0" in shown
    assert IMAGE in browser.get(f"/fleet/nodes/{node.pk}/").content.decode()
    stranger = client_of(person("vera", vision=Role.VIEWER))
    assert "/fleet/clusters/west/" not in stranger.get("/images/vllm-10/").content.decode()


def test_percentiles_are_values_that_were_seen() -> None:
    values = [float(number) for number in range(1, 21)]
    assert (percentile(values, 0.5), percentile(values, 0.95), percentile([7.0], 0.95)) == (10.0, 19.0, 7.0)
