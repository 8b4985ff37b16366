"""Benchmarks on a Kubernetes cluster: kinds of machines, and a load generator that is a Job beside them."""

import base64
import io
import json
import urllib.error
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from accounts.actors import of_user
from benchmarks.load import __main__ as generator
from benchmarks.load import remote
from benchmarks.models import Benchmark, BenchmarkLoadToken, BenchmarkRecords, BenchmarkRun
from benchmarks.reconcilers.benchmarks import BenchmarkReconciler
from benchmarks.reconcilers.cleanup import CleanupReconciler
from benchmarks.reconcilers.runs import RunReconciler
from benchmarks.services import cancel_benchmark, create_benchmark
from benchmarks.states import BenchmarkState, RunState
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.models import Cluster
from clusters.reconcilers.clusters import ClusterReconciler
from clusters.reconcilers.deployment_steps import DeploymentTools
from clusters.reconcilers.deployments import DeploymentReconciler
from common.errors import Invalid
from common.jobs.remote import OrderRefused
from common.reconcile import Reconciler
from kube.client import KubeClient
from kube.fake.cluster import SimulatedCluster, node
from kube.fake.transport import FakeTransport
from kube.resources import JOBS, NODES, PODS, SECRETS, Ref
from tests.benchmarks.conftest import SCENARIO, quiet_machine
from tests.benchmarks.scripted_server import Script, scripted_server
from tests.cast import person
from tests.clusters.world import Scene
from tests.images.builders import image, reference

pytestmark = pytest.mark.any_database

GPU = {"nvidia.com/gpu": "8"}
WHERE: dict[str, Any] = {"store_url": "https://slipway.example", "jobs_image": reference("jobs")}
RUN = "slipway.io/job-owner"


class ThroughTheTestClient(remote.ControlPlaneOrder):
    """The order of a generator whose requests reach the control plane without a network."""

    def _once(
        self, method: str, path: str, body: bytes | Path | None, *, content: str = "application/json"
    ) -> bytes:
        sent = body.read_bytes() if isinstance(body, Path) else body or b""
        answer = Client().generic(
            method, remote.PATH + path, sent, content, HTTP_AUTHORIZATION=f"Bearer {self.token}"
        )
        if answer.status_code >= 400:
            said = io.BytesIO(answer.content)
            raise urllib.error.HTTPError(path, answer.status_code, "refused", Message(), said)
        return answer.content


class KubernetesBenchmarks(Scene):
    def __init__(self) -> None:
        super().__init__()
        self.server = SimulatedCluster(
            nodes=[
                node("a100", labels={"gpu": "a100"}, **GPU),
                node("h100", labels={"gpu": "h100"}, **GPU),
                node("plain"),
            ]
        )
        self.server.make("namespaces", {"metadata": {"name": "slipway"}})
        self.client = KubeClient(FakeTransport(self.server))
        settings = KubernetesSettings(**WHERE, model_files="node_cache")
        self.backend = KubernetesCluster(self.client, settings, store_token="sesame")
        self.done: set[str] = set()
        """Pods of generators whose program has ended."""
        self.actor = of_user(person("ada", vision="developer"))
        image("echo-worker", engine="echo", reference=reference("worker"))
        Cluster.objects.filter(name="local").update(next_at=None)
        Cluster.objects.create(name="west", kind="kubernetes", settings=WHERE, next_at=self.clock())
        self.pass_(5)

    def reconcilers(self) -> list[Reconciler[Any]]:
        def backend_of(_cluster: Cluster) -> KubernetesCluster:
            return self.backend

        tools = DeploymentTools(backend_of=backend_of, heartbeats=lambda _: None, agents=lambda _: None)
        return [
            BenchmarkReconciler(),
            RunReconciler(backend_of=backend_of),
            CleanupReconciler(backend_of=backend_of),
            DeploymentReconciler(tools),
            ClusterReconciler(backend_of, lambda _: {}, lambda _: None),
        ]

    def pass_(self, seconds: float, *, by: float = 1.0) -> None:
        for _ in range(int(seconds / by)):
            super().pass_(by, by=by)
            self.server.advance(by)

    def begin(self, *machines: str, **spec: Any) -> Benchmark:
        kinds = {name: {"gpu": name} for name in machines}
        space = {"engines": ["echo"], "machines": kinds}
        return create_benchmark(
            actor=self.actor, team=self.team, name="kinds", cluster="west", scenario=SCENARIO,
            spec={"versions": ["story:v1"], "repeats": 1, "space": space, **spec},
        )  # fmt: skip

    def pods(self, **labels: str) -> list[dict[str, Any]]:
        chosen = ",".join(f"{key.replace('__', '/')}={value}" for key, value in labels.items())
        return list(self.client.list(PODS, labels=chosen).items)

    def generators(self) -> list[dict[str, Any]]:
        return list(self.client.list(PODS, labels=RUN).items)

    def until(self, holds: Any, seconds: float = 200) -> None:
        for _ in range(int(seconds / 2)):
            if holds():
                return
            self.pass_(2, by=2)
        raise AssertionError([(run.state, run.reason) for run in BenchmarkRun.objects.all()])

    def ended(self, row: Benchmark) -> bool:
        row.refresh_from_db()
        return row.ended_at is not None

    def leftovers(self) -> list[str]:
        found = [*self.client.list(JOBS).items, *self.client.list(PODS).items]
        found += self.client.list(SECRETS, labels=RUN).items
        return [one["metadata"]["name"] for one in found]


@pytest.fixture
def scene(db: None, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> KubernetesBenchmarks:
    quiet_machine(monkeypatch)
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"
    return KubernetesBenchmarks()


def order_in(scene: KubernetesBenchmarks, pod: dict[str, Any]) -> ThroughTheTestClient:
    """The order by what lies in the pod's Secret."""
    (volume,) = [one for one in pod["spec"]["volumes"] if "secret" in one]
    secret = scene.client.get(Ref(SECRETS, volume["secret"]["secretName"], "slipway"))
    told = json.loads(base64.b64decode(secret["data"]["stdin"]))
    assert told["url"] == WHERE["store_url"]
    return ThroughTheTestClient(told["url"], told["token"], patience_seconds=0)


def play(
    scene: KubernetesBenchmarks, pod: dict[str, Any], directory: Path, *, environments: Path | None = None
) -> None:
    """Do what the program of a generator's pod does, with a scripted server where the addresses lead.
    `environments`: of its image."""
    control_plane = order_in(scene, pod)
    directory.mkdir()
    with scripted_server(Script(ttft=0.005, tpot=0.001)) as server:
        order = {**control_plane.read(), "addresses": [server.url], "environments": str(environments)}
        result = generator.measure(order, directory, lambda *told: control_plane.tell(
            dict(zip(("stage", "window", "rate"), told, strict=True))
        ))  # fmt: skip
    control_plane.hand_in(directory / "records.jsonl.gz", result)
    scene.done.add(pod["metadata"]["name"])


def test_two_kinds_of_machines_are_loaded_from_a_third(scene: KubernetesBenchmarks, tmp_path: Path) -> None:
    scene.server.kubelets.behaviour_of = lambda pod: (
        "succeed" if pod["metadata"]["name"] in scene.done else "run"
    )
    row = scene.begin("a100", "h100")
    scene.until(lambda: len([one for one in scene.generators() if one["spec"].get("nodeName")]) == 2)

    workers = scene.pods(**{"app.kubernetes.io__managed-by": "slipway"})
    places = {one["spec"]["nodeName"] for one in workers if RUN not in one["metadata"]["labels"]}
    assert places == {"a100", "h100"}, "each kind has its machine, at the same time"
    pods = scene.generators()
    assert {one["spec"]["nodeName"] for one in pods} == {"plain"}
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        token = order_in(scene, pod).token
        assert token not in json.dumps(pod), "neither in its command nor in its environment"
        assert container["resources"]["limits"]["cpu"] == "1"
        play(scene, pod, tmp_path / pod["metadata"]["name"])
    run = BenchmarkRun.objects.all()[0]
    assert run.progress == {"stage": "measure", "window": 0, "rate": 40.0}, "told over REST"

    scene.until(lambda: scene.ended(row))
    assert row.state == BenchmarkState.FINISHED, row.reason
    runs = list(BenchmarkRun.objects.all())
    assert {run.state for run in runs} == {RunState.VALID}, [run.violations for run in runs]
    assert {tuple(run.environment["machines"]) for run in runs} == {("a100",), ("h100",)}
    assert BenchmarkRecords.objects.count() == 2
    assert not scene.leftovers()
    assert not BenchmarkLoadToken.objects.filter(token__revoked_at=None).exists()


@pytest.mark.slow
def test_aiperf_is_the_generator_in_the_cluster_where_it_is_asked_for(
    scene: KubernetesBenchmarks, tmp_path: Path, environments: Path
) -> None:
    scene.server.kubelets.behaviour_of = lambda pod: (
        "succeed" if pod["metadata"]["name"] in scene.done else "run"
    )
    row = scene.begin("a100", load_engine="aiperf")
    scene.until(lambda: bool(scene.generators()))
    (pod,) = scene.generators()
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"]["cpu"] == "2", "a worker's core, and one for its other processes"
    play(scene, pod, tmp_path / "load", environments=environments)
    scene.until(lambda: scene.ended(row))
    run = BenchmarkRun.objects.get()
    assert (row.state, run.state) == (BenchmarkState.FINISHED, RunState.VALID), run.violations
    assert run.environment["load_engine"] == "aiperf"
    assert run.figures.get(name="goodput").value == pytest.approx(40, rel=0.2)
    assert not scene.leftovers()


def test_a_generator_speaks_for_its_run_while_that_measures(scene: KubernetesBenchmarks) -> None:
    row = scene.begin("a100")
    scene.until(lambda: bool(scene.generators()))
    control_plane = order_in(scene, scene.generators()[0])
    assert control_plane.read()["model"] == "story:v1"
    stranger = Client().get(remote.PATH, HTTP_AUTHORIZATION="Bearer slw_none")
    assert stranger.status_code == 401
    cancel_benchmark(row, actor=scene.actor)
    with pytest.raises(OrderRefused, match="409"):
        control_plane.hand_in(Path("none"), {"failed": "late"})
    scene.until(lambda: scene.ended(row))
    with pytest.raises(OrderRefused, match="401"):
        control_plane.read()


def test_cancelling_removes_workers_job_and_secret_within_30_seconds(scene: KubernetesBenchmarks) -> None:
    row = scene.begin("a100")
    scene.until(lambda: bool(scene.generators()))
    cancel_benchmark(row, actor=scene.actor)
    began = scene.clock()
    scene.until(lambda: scene.ended(row) and not scene.leftovers(), seconds=30)
    assert (scene.clock() - began).total_seconds() <= 30
    assert row.state == BenchmarkState.CANCELLED


def test_a_cluster_whose_settings_lost_its_image_still_gives_back_what_runs(
    scene: KubernetesBenchmarks,
) -> None:
    row = scene.begin("a100")
    scene.until(lambda: bool(scene.generators()))
    scene.backend = KubernetesCluster(scene.client, KubernetesSettings(), store_token="sesame")
    cancel_benchmark(row, actor=scene.actor)
    scene.until(lambda: scene.ended(row) and not scene.leftovers(), seconds=60)


@pytest.mark.parametrize(
    ("result", "field"),
    [
        ({"engine": "builtin"}, "summaries"),
        ({"summaries": [{"window": 0}]}, "summaries.0.rate"),
        ({"failed": "late", "system": {"began": 1, "step": 0, "series": {}}}, "system.step"),
    ],
)
def test_a_malformed_result_is_refused_by_its_field(
    scene: KubernetesBenchmarks, result: dict[str, Any], field: str
) -> None:
    scene.begin("a100")
    scene.until(lambda: bool(scene.generators()))
    control_plane = order_in(scene, scene.generators()[0])
    with pytest.raises(OrderRefused, match=field.replace(".", r"\.")):
        control_plane.hand_in(Path("none"), result)
    assert BenchmarkRun.objects.get().load_result is None


def test_jobs_and_workers_of_a_run_that_is_gone_are_found_by_their_labels(
    scene: KubernetesBenchmarks,
) -> None:
    scene.begin("a100")
    scene.until(lambda: bool(scene.generators()))
    BenchmarkRun.objects.all().delete()
    scene.until(lambda: not scene.leftovers())


@pytest.mark.parametrize("trouble", ["quota", "pull"])
def test_a_configuration_that_the_cluster_refuses_is_a_result_in_its_words(
    scene: KubernetesBenchmarks, trouble: str
) -> None:
    if trouble == "quota":
        quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}}
        scene.server.make("resourcequotas", {**quota, "metadata": {"name": "small", "namespace": "slipway"}})
    else:
        scene.server.kubelets.behaviour_of = lambda _pod: "imagepull"
    row = scene.begin("a100", ready_within_seconds=60)
    scene.until(lambda: scene.ended(row))
    run = BenchmarkRun.objects.get()
    assert run.state == RunState.FAILED
    assert {"quota": "exceeded quota: small", "pull": "pull"}[trouble] in run.reason
    assert not scene.leftovers()


@pytest.mark.parametrize("victim", ["worker", "generator"])
def test_an_eviction_is_no_measurement(scene: KubernetesBenchmarks, victim: str, tmp_path: Path) -> None:
    evicted: set[str] = set()
    scene.server.kubelets.behaviour_of = lambda pod: (
        "evicted" if pod["metadata"]["name"] in evicted
        else "succeed" if pod["metadata"]["name"] in scene.done else "run"
    )  # fmt: skip
    scene.begin("a100")
    scene.until(lambda: bool(scene.generators()))
    (pod,) = scene.generators()
    (worker,) = [one for one in scene.pods() if RUN not in one["metadata"]["labels"]]
    evicted.add((pod if victim == "generator" else worker)["metadata"]["name"])
    scene.pass_(10)
    if victim == "worker":
        play(scene, pod, tmp_path / "load")
    scene.until(lambda: BenchmarkRun.objects.count() == 2)
    first = BenchmarkRun.objects.get(position=1)
    assert first.state == RunState.INVALID
    rules = {one["rule"] for one in first.violations}
    assert rules == {"restarts"} if victim == "worker" else "load generator" in first.reason
    assert BenchmarkRun.objects.get(position=2).state not in (RunState.VALID, RunState.FAILED), (
        "a fresh server"
    )


def test_a_cluster_without_a_place_for_generators_is_refused(scene: KubernetesBenchmarks) -> None:
    Cluster.objects.filter(name="west").update(settings={"store_url": WHERE["store_url"]})
    with pytest.raises(Invalid, match="jobs_image"):
        scene.begin("a100")
    Cluster.objects.filter(name="west").update(settings=WHERE)
    scene.client.patch(Ref(NODES, "plain"), {"spec": {"unschedulable": True}})
    scene.pass_(40, by=10)
    with pytest.raises(Invalid, match="without a GPU"):
        scene.begin("a100")
