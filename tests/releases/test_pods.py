"""What a service says of its workers' pods reaches the cluster, its pages show it, and faults are told."""

from typing import Any

import pytest
from django.test import Client

from clusters.models import Cluster, Deployment, Worker
from clusters.scrape_targets import scrape_targets
from common.models import AuditRecord
from gateway.models import Gateway
from kube.resources import PODS
from releases.models import Release, Service
from releases.pages.pod_fields import SERVER_FIELDS, PodFormField
from serving.relay_protocol import ScrapeTarget
from tests.cast import Api, api, person
from tests.contracts.cluster_rigs import KubernetesRig
from tests.images.builders import image
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

POD: dict[str, Any] = {
    "node_selector": {"pool": "inference"},
    "tolerations": [{"key": "gpu", "effect": "NoSchedule"}],
    "topology_spread": [{"topology_key": "topology.kubernetes.io/zone"}],
    "priority_class": "serving",
    "image_pull_secrets": ["registry"],
    "env": {"LOG_LEVEL": "debug"},
    "load_within_seconds": 7_200,
    "grace_seconds": 120,
}


class Pods:
    """The scene's cluster is a Kubernetes one, with an API server and machines that are fakes."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.rig = KubernetesRig(machines=2)
        scene.world = self.rig.cluster  # type: ignore[assignment]
        Cluster.objects.update(kind="kubernetes", settings={"env_secrets": ["keys"]})
        self.eve: Api = api(person("eve", **{scene.team.name: "admin"}))

    def create(self, **how: Any) -> Any:
        body = {"name": "fresh", "model": "story", "version": "v1", "engine": "echo"} | how
        return self.eve.post("services/", body)

    def deployed(self) -> list[Any]:
        """Its pods, when the deployment of the first release is there."""
        name = Release.objects.get(service__name="fresh").candidate_deployment
        self.scene.run_until(
            lambda: Deployment.objects.filter(name=name, applied_generation=1).exists(), seconds=20
        )
        return self.pods(name)

    def pods(self, deployment: str) -> list[Any]:
        found = self.rig.cluster.client.list(PODS, labels=f"slipway.io/deployment={deployment}")
        return list(found.items)


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Pods:
    return Pods(Scene(monkeypatch))


def test_what_a_service_says_of_its_pods_is_what_they_are_and_what_its_pages_show(
    pods: Pods, client: Client
) -> None:
    image("echo-1", engine="echo")
    pods.rig.label("pool", "inference")
    pods.rig.cluster.client.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "serving"},
            "value": 1_000,
        }
    )
    resources = {"cpus": 2, "cpu_limit": "4", "memory": "16Gi", "gpus_per_worker": 1}
    answer = pods.create(pod=POD, resources=resources)
    assert answer.status_code == 202, answer.content
    assert answer.json()["pod"] == POD
    (pod,) = pods.deployed()
    spec = pod["spec"]
    container = spec["containers"][0]
    assert (spec["nodeSelector"], spec["priorityClassName"]) == ({"pool": "inference"}, "serving")
    assert {"operator": "Exists", "key": "gpu", "effect": "NoSchedule"} in spec["tolerations"]
    assert spec["topologySpreadConstraints"][0]["topologyKey"] == "topology.kubernetes.io/zone"
    assert {"name": "LOG_LEVEL", "value": "debug"} in container["env"]
    assert container["resources"]["limits"]["cpu"] == "4"
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 7_200
    assert spec["terminationGracePeriodSeconds"] >= 125
    client.force_login(person("zoe", **{pods.scene.team.name: "viewer"}))
    deployment = Deployment.objects.get(service="fresh")
    for page in ("/services/fresh/", f"/fleet/deployments/{deployment.name}/"):
        shown = client.get(page).content.decode()
        for said in ("pool=inference", "gpu:NoSchedule op=Exists", "serving", "2, at most 4", "16Gi", "7200"):
            assert said in shown, (page, said)


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"resources": {"memroy": "4Gi"}}, "resources.memroy", "There is no such setting. There are cpu_l"),
        ({"resources": {"memory": "lots"}}, "resources.memory", "Give an amount of memory: 16Gi or 512Mi."),
        ({"resources": {"cpus": 4, "cpu_limit": 2}}, "resources", "cpu_limit must not be less than cpus."),
        (
            {"resources": {"gpus_per_worker": "two"}},
            "resources.gpus_per_worker",
            "It must be a valid integer",
        ),
        (
            {"pod": {"tolerations": [{"efect": "x"}]}},
            "pod.tolerations.0.efect",
            "There are effect, key, oper",
        ),
        ({"pod": {"env": {"SLIPWAY_HOME": "/"}}}, "pod.env.SLIPWAY_HOME", "SLIPWAY_HOME is set by Slipway."),
        (
            {"pod": {"secret_env": {"TOKEN": {"secret": "others", "key": "token"}}}},
            "pod.secret_env.TOKEN",
            "Services may not read the secret others there",
        ),
        ({"resources": {"gpu_resource": "nvidia.com/mig"}}, "resources.gpu_resource", "is no name of GPUs"),
        (
            {"resources": {"gpu_resource": "nvidia.com/mig-1g.10gb", "gpus_per_worker": 2}},
            "resources",
            "one slice",
        ),
        ({"pod": {"namespace": "elsewhere"}}, "pod.namespace", "The cluster lets Slipway use slipway."),
        ({"pod": {"server": {}}}, "pod.server", "The engine echo runs in our worker alone."),
        (
            {"engine": "openai", "pod": {"server": {"metrics": {"requests": "a_total"}}}},
            "pod.server.metrics",
            "Name running",
        ),
        (
            {"engine": "openai", "pod": {"server": {"metrics": {"runing": "a"}}}},
            "pod.server.metrics.runing",
            "Nothing is read as 'runing'",
        ),
        ({"engine": "tgi", "pod": {"server": {"metrics": {}}}}, "pod.server.metrics", "are known"),
        ({"pod": {"nodes_per_replica": 2}}, "pod.nodes_per_replica", "Only our worker with the engine vllm"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_stands(
    pods: Pods, given: dict[str, Any], field: str, says: str
) -> None:
    answer = pods.create(**given)
    assert answer.status_code == 400
    told = answer.json()["errors"]
    assert says in told[field][0], told
    assert not Service.objects.filter(name="fresh").exists()


def test_a_cluster_without_pods_says_so(pods: Pods) -> None:
    Cluster.objects.update(kind="embedded", settings={})
    answer = pods.create(pod={"priority_class": "serving"})
    assert answer.json()["errors"] == {
        "pod": ["Cluster local runs workers as processes of its machine: it has no pods."]
    }
    assert pods.create(engine="tgi").json()["errors"]["engine"] == [
        "Cluster local runs workers as processes of its machine: it has no pods."
    ]


def test_the_form_keeps_what_it_shows_and_blames_the_field(pods: Pods, client: Client) -> None:
    scene = pods.scene
    stored = POD | {
        "tolerations": [
            {"key": "gpu", "effect": "NoSchedule"},
            {"key": "team", "value": "a", "effect": "NoExecute", "seconds": 300},
        ],
        "secret_env": {"TOKEN": {"secret": "keys", "key": "token"}},
        "server": {"args": ["--model=$(MODEL_DIR)", "--port=$(PORT)"], "port": 8080},
    }
    Service.objects.filter(pk=scene.service.pk).update(
        pod=stored, resources={"memory": "16Gi"}, engine="vllm"
    )
    client.force_login(person("zoe", **{scene.team.name: "admin"}))
    path = f"/services/{scene.name}/settings/"
    form = client.get(path).context["form"]
    given = {field.html_name: field.value() for field in form}
    given = {name: "" if value is None else value for name, value in given.items()}
    assert given["pod_tolerations"] == "gpu:NoSchedule\nteam=a:NoExecute for 300s"
    assert given["server_args"] == "--model=$(MODEL_DIR)\n--port=$(PORT)"
    answer = client.post(path, given | {"resources_cpus": "500m"})
    assert answer.status_code == 302, answer.context["form"].errors
    scene.service.refresh_from_db()
    assert scene.service.pod == stored
    assert scene.service.resources == {"memory": "16Gi", "cpus": "500m"}
    given["revision"] = str(scene.service.revision)
    refused = client.post(
        path, given | {"pod_tolerations": "gpu:Never", "resources_memory": "x", "pod_env": "A"}
    )
    faults = refused.context["form"].errors
    assert faults["pod_env"] == ["A: write NAME=VALUE, one to a line."]
    refused = client.post(path, given | {"pod_tolerations": "gpu:Never", "resources_memory": "x"})
    faults = refused.context["form"].errors
    assert "NoSchedule" in faults["pod_tolerations"][0]
    assert faults["resources_memory"] == ["Give an amount of memory: 16Gi or 512Mi."]


def test_names_of_metrics_are_written_one_to_a_line_and_those_of_opentelemetry_by_its_name() -> None:
    field = PodFormField(next(one for one in SERVER_FIELDS if one.key == "metrics"))
    for text, names in (("opentelemetry", {}), ('running=active{a="b"}', {"running": 'active{a="b"}'})):
        assert field.clean(text) == names
        assert field.prepare_value(names) == text
    assert field.clean("") is None


PATCH = {
    "spec": {
        "schedulerName": "volcano",
        "containers": [{"name": "worker", "env": [{"name": "A", "value": "1"}]}],
    }
}


def test_a_patch_of_the_pods_is_deployed_when_somebody_else_has_approved_it(
    pods: Pods, client: Client
) -> None:
    image("echo-1", engine="echo")
    assert pods.create().status_code == 202
    before = pods.deployed()[0]["spec"]
    path = "services/fresh/pod-patches/"
    proposed = pods.eve.post(path, {"patch": PATCH, "reason": "Gang scheduling."})
    assert proposed.status_code == 201, proposed.content
    number = proposed.json()["id"]
    assert pods.eve.post(path, {"patch": {"spec": {"dnsPolicy": "None"}}, "reason": "x"}).status_code == 409
    own = pods.eve.post(f"{path}{number}/approve/", {"reason": "fine"})
    assert own.status_code == 403, own.content
    nina = person("nina", **{pods.scene.team.name: "approver"})
    client.force_login(nina)
    assert "Pods of fresh" in client.get("/").content.decode()
    shown = client.get("/services/fresh/pods/").content.decode()
    assert "volcano" in shown
    answer = client.post(f"/services/fresh/pods/{number}/approve/", {"reason": "seen on staging"})
    assert answer.status_code == 302, answer.content
    assert pods.eve.get(path).json()[0]["state"] == "approved"
    record = AuditRecord.objects.get(action="service.pod_patch.approve")
    assert (record.actor, record.reason, record.detail["patch"]) == ("nina", "seen on staging", PATCH)
    # It is deployed by a release of the same version, whose workers are others now.
    service = Service.objects.get(name="fresh")
    first = Deployment.objects.get(service="fresh")
    Service.objects.filter(pk=service.pk).update(
        stable_version=first.version, stable_deployment=first.name, plan_name="direct"
    )
    Release.objects.filter(service=service).update(state="promoted", next_at=None)
    again = pods.eve.post(
        "releases/", {"service": "fresh", "version": "v1", "plan": "direct", "reason": "patch"}
    )
    assert again.status_code == 202, again.content
    row = Release.objects.latest("pk")
    pods.scene.run_until(lambda: bool(pods.pods(row.candidate_deployment)), seconds=20)
    after = pods.pods(row.candidate_deployment)[0]["spec"]
    assert (before.get("schedulerName"), after["schedulerName"]) == ("default-scheduler", "volcano")
    assert {"name": "A", "value": "1"} in after["containers"][0]["env"]
    assert after["containers"][0]["command"][:3] == ["python", "-m", "serving.worker"]


def test_a_server_of_another_maker_runs_as_its_image_does_and_is_read_by_the_relay(pods: Pods) -> None:
    image("sglang-1", engine="sglang")
    Cluster.objects.update(
        settings={"report_url": "https://slipway.example", "relay_image": f"r@sha256:{'0' * 64}"}
    )
    answer = pods.create(engine="sglang", pod={"server": {"port": 30_000}, "grace_seconds": 60})
    assert answer.status_code == 202, answer.content
    (pod,) = pods.deployed()
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert container["command"] == ["python3", "-m", "sglang.launch_server"]
    assert "--served-model-name" in container["args"]
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert (told["MODEL_NAME"], told["MODEL_DIR"], told["PORT"]) == ("fresh", "/models/version", "30000")
    assert container["ports"] == [{"name": "http", "containerPort": 30_000, "protocol": "TCP"}]
    assert container["startupProbe"]["httpGet"]["path"] == "/health"
    # It is told to end when gateways have left and its requests had their time.
    assert container["lifecycle"]["preStop"]["sleep"]["seconds"] == 65
    assert spec["terminationGracePeriodSeconds"] >= 70
    cluster = Cluster.objects.get()
    worker = Worker.objects.filter(deployment__service="fresh")
    pods.scene.run_until(worker.filter(state="ready").exists, seconds=20)
    worker.update(address="10.0.0.7")  # pods of this fake have none
    (target,) = scrape_targets(cluster.pk)
    assert (target["engine"], target["port"], target["path"]) == ("sglang", 30_000, "/metrics")
    assert "/models/version" in {one["mountPath"] for one in container["volumeMounts"]}
    # Of a server that nobody knows its service says what its metrics are called.
    row = Deployment.objects.filter(service="fresh")
    row.update(engine="openai", pod={"server": {}})
    assert scrape_targets(cluster.pk) == []
    for names in ({}, {"running": "engine_active"}):
        row.update(pod={"server": {"metrics": names}})
        (target,) = scrape_targets(cluster.pk)
        assert ScrapeTarget.from_dict(target).names == names


def test_a_plan_that_counts_is_refused_where_nobody_counts_for_a_server_of_another_maker(pods: Pods) -> None:
    scene = pods.scene
    Service.objects.filter(pk=scene.service.pk).update(engine="tgi")
    Gateway.objects.update(metrics="workers")
    body = {"service": scene.name, "version": "v2", "plan": "swift", "reason": "x"}
    answer = pods.eve.post("releases/", body)
    assert answer.status_code == 409
    assert "nobody counts the requests of the engine tgi" in answer.json()["detail"]
    Gateway.objects.update(metrics="gateway")
    assert pods.eve.post("releases/", body).status_code == 202
