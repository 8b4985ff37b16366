"""The list of machines at any size, and what a machine's page tells of what stands there."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from clusters import heartbeat_records, overview
from clusters.agents import agent_key
from clusters.backends.kubernetes_events import KubernetesEvent, packed
from clusters.fleet import ClusterRow, FleetRows, FleetSnapshot, NodeRow, fleet_of
from clusters.models import Cluster, Occupancy
from clusters.overview import MACHINES_ON_A_PAGE, MOST_CELLS, HeatMapCell, HeatMapPage, MapGrouping
from clusters.shared_machines import EVENTS, Publisher, claim_key, events_about
from clusters.states import ClusterKind
from common.live.redis import ask
from tests.cast import api, person
from tests.clusters.world import gpu_of, node_of

pytestmark = pytest.mark.django_db
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(name="prod", kind=ClusterKind.KUBERNETES, revision=1)


@pytest.fixture
def browser() -> Client:
    browser = Client()
    browser.force_login(person("ann", superuser=True))
    return browser


def fleet(machines: int, *, the_last: str = "ready") -> FleetSnapshot:
    nodes = [NodeRow(number, f"gpu-{number:05}", 1, "online", "ready") for number in range(machines - 1)]
    nodes.append(NodeRow(machines, f"gpu-{machines - 1:05}", 1, "online", the_last))
    rows = FleetRows(clusters=[ClusterRow(1, "prod", None, "")], nodes=nodes)
    return fleet_of(rows, {}, now=timezone.now(), is_live=True)


def cells(found: FleetSnapshot, by: MapGrouping = MapGrouping.GROUP) -> Any:
    ((group,),) = (one.groups for one in overview.maps_of(found, by))
    return group.cells


def test_machines_have_a_cell_each_until_there_are_very_many() -> None:
    assert {type(one) for one in cells(fleet(MOST_CELLS))} == {HeatMapCell}
    found = cells(fleet(MOST_CELLS + 1, the_last="not_ready"))
    assert {type(one) for one in found} == {HeatMapPage}
    assert len(found) == -(-(MOST_CELLS + 1) // MACHINES_ON_A_PAGE)
    assert found[0].label == "50 machines, gpu-00000 to gpu-00049"
    assert found[-1].label == "1 machine, gpu-00500, 1 unhealthy"
    assert (found[0].tone, found[-1].tone) == ("", "bad")
    assert found[0].live_path.split()[:2] == ["node.0.busy", "node.1.busy"]
    assert found[1].url == "/fleet/?cluster=prod&group=online&sort=name&page=2"
    by_service = cells(fleet(MOST_CELLS + 1), MapGrouping.SERVICE)
    assert by_service[1].url == "/fleet/?cluster=prod&sort=name&page=2&by=service", (
        "a service is no group of machines"
    )


def test_a_shared_cell_leads_to_the_page_of_its_machines(browser: Client, cluster: Cluster) -> None:
    for number in reversed(range(MACHINES_ON_A_PAGE + 1)):
        node_of(cluster, f"gpu-{number:05}")
    url = HeatMapPage([], "prod", "online", 2, "", "").url
    page = browser.get(url).content.decode()
    table = page[page.index("<tbody>") :]
    assert "gpu-00050" in table
    assert "gpu-00049" not in table


def test_machines_say_their_gpus_and_are_found_by_them(browser: Client, cluster: Cluster) -> None:
    for name, zone, gpu in (("a", "z1", "H100"), ("b", "z2", "L4")):
        machine = node_of(cluster, name, labels={ZONE: zone})
        for index in range(4):
            gpu_of(machine, index, name=gpu, driver="570.1")
    node_of(cluster, "c", labels={})
    used = {"a": {"nvidia.com/gpu": {"ours": 1, "others": 2}}, "b": {}}
    Occupancy.objects.create(cluster=cluster, used=used, seen_at=timezone.now())

    def rows(query: str) -> list[str]:
        page = browser.get(f"/fleet/{query}").content.decode()
        table = page[page.index("<tbody>") : page.index("</tbody>")]
        return [one.split("</a>")[0].rpartition(">")[2] for one in table.split("<tr>")[1:]]

    assert rows("?gpu=h100") == ["a"]
    assert rows("?zone=z2") == ["b"]
    assert rows("?sort=free")[:2] == ["a", "b"]
    assert rows("?sort=-free")[:2] == ["b", "a"]
    assert rows("?sort=gpu") == ["a", "b", "c"]
    page = browser.get("/fleet/?gpu=h100").content.decode()
    for words in ("4 × H100", "570.1", "z1", "2 by other pods"):
        assert words in page


def test_the_list_draws_use_and_memory_of_each_gpu(
    browser: Client, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = node_of(cluster, "a")
    read, silent = gpu_of(machine, 0, memory_bytes=80), gpu_of(machine, 1)
    readings = {read.uuid: {"utilization_ratio": 0.45, "memory_used_bytes": 60}}
    kept = {agent_key(cluster.pk, machine.uid): readings}
    monkeypatch.setattr(heartbeat_records, "readings_by_agent", lambda _keys: kept)
    page = browser.get("/fleet/").content.decode()
    drawing = page[page.index('class="gpu-bars"') :].split("</svg>")[0]
    assert "GPU 0: use 45%, memory 75%; GPU 1: use –, memory –" in drawing
    assert 'class="gpu-use" d="M0 11h5v9h-5z"' in drawing
    assert 'class="gpu-memory" d="M6 5h5v15h-5z"' in drawing
    assert silent.uuid not in readings


@pytest.mark.stack
def test_a_machines_page_tells_what_stands_there_and_what_its_cluster_told(
    browser: Client, cluster: Cluster, valkey: Any
) -> None:
    machine = node_of(cluster, "a")
    counted = {"pods": {"a": {"ours": 2, "others": 7}}, "used": {"a": {"nvidia.com/gpu": {"others": 3}}}}
    Occupancy.objects.create(cluster=cluster, seen_at=timezone.now(), **counted)
    ask(lambda client: client.set(claim_key(cluster.pk), "me"))
    now = datetime.now(UTC)
    events = [
        KubernetesEvent(
            "Node", "a", "NodeNotReady", "it is silent", True, 3, now - timedelta(hours=1), now, "kubelet"
        ),
        KubernetesEvent(
            "Node", "a", "Rebooted", "another boot id", False, 1, None, now - timedelta(minutes=9)
        ),
    ]
    others = packed([KubernetesEvent("Node", "b", "Elsewhere", "", False, 1, None, now)])
    heard = {"Node a": packed(events), "Node b": others}
    Publisher(cluster, "me", EVENTS).share(heard, heard_at=time.time())
    page = browser.get(f"/fleet/nodes/{machine.pk}/").content.decode()
    assert page.index("NodeNotReady") < page.index("Rebooted")
    assert "it is silent" in page
    assert "Elsewhere" not in page
    assert page.index("Other pods") < page.index('<td class="number">7</td><td class="number">3</td>')
    found = events_about(cluster, ["Node a"])
    assert found is not None
    assert [one.count for one in found.events] == [3, 1]


def test_what_is_told_of_a_machine_is_read_over_rest_page_by_page(cluster: Cluster, valkey: Any) -> None:
    machine = node_of(cluster, "a")
    at = f"clusters/{cluster.name}/nodes/{machine.pk}/events/"
    ada = api(person("ada", superuser=True))
    assert ada.get(at).json() == {"heard_at": None, "next": None, "results": []}
    ask(lambda client: client.set(claim_key(cluster.pk), "me"))
    now = datetime.now(UTC)
    told = [
        KubernetesEvent(
            "Node", "a", f"Reason{n}", "disk", n == 1, 1, None, now - timedelta(minutes=n), uid=uid
        )
        for n, uid in enumerate(("a", machine.uid, "", "of a former machine"))
    ]
    Publisher(cluster, "me", EVENTS).share({"Node a": packed(told)}, heard_at=time.time())
    first = ada.get(f"{at}?limit=2").json()
    assert [one["reason"] for one in first["results"]] == ["Reason0", "Reason1"]
    assert [one["type"] for one in first["results"]] == ["Normal", "Warning"]
    second = ada.get(first["next"].partition("/api/v1/")[2]).json()
    assert ([one["reason"] for one in second["results"]], second["next"]) == (["Reason2"], None)
    assert [one["reason"] for one in ada.get(f"{at}?type=Warning&q=DISK").json()["results"]] == ["Reason1"]
    assert ada.get(f"{at}?kind=Pod").json()["results"] == []
    for wrong in ("kind=pods", "limit=0", "cursor=x", "reason=a"):
        assert ada.get(f"{at}?{wrong}").status_code == 400, wrong
