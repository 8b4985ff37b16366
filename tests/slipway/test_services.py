"""Services from the command line: made, changed, their pods and their release header."""

from pathlib import Path

from accounts.states import Role
from clusters.models import Cluster
from gateway.models import opened_key
from releases.models import Release, Service
from tests.cast import person, team, token_of
from tests.clusters.world import version_of
from tests.releases.world import Scene
from tests.slipway.conftest import Terminal, token_for

JSON = ("--output", "json")


def test_a_service_is_created_with_its_first_release(terminal: Terminal, developer: str) -> None:
    version_of(team("vision"), "tiny:v1")
    Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})

    said = terminal("service", "create", "chat", "tiny:v1", "--replicas", 2, "--engine", "echo")

    service = Service.objects.get(name="chat")
    assert said.status == 0, said
    assert (service.replicas, service.engine, service.plan_name) == (2, "echo", "canary")
    assert said.out == f"chat is created; release {Release.objects.get().pk} deploys tiny:v1\n"


def test_a_service_that_is_waited_for_serves_or_says_why_not(terminal: Terminal, scene: Scene) -> None:
    said = terminal("service", "create", "twin", str(scene.v1), "--engine", "echo", "--wait")

    assert (said.status, "serves all traffic of twin" in said.out) == (0, True), said
    assert Service.objects.get(name="twin").stable_version == scene.v1
    late = terminal("service", "create", "late", str(scene.v1), "--engine", "echo", "--wait", "--timeout", 0)
    assert late.status == 4


def test_a_service_says_what_its_workers_run_on(terminal: Terminal, developer: str) -> None:
    version_of(team("vision"), "tiny:v1")
    Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})
    words = ("service", "create", "chat", "tiny:v1", "--engine", "echo")

    refused = terminal(*words, "--device", "abacus")
    assert refused.status == 2
    assert "abacus" in refused.err
    assert terminal(*words, "--device", "cuda", "--gpus", 2).status == 0

    service = Service.objects.get(name="chat")
    assert (service.device, service.resources) == ("cuda", {"gpus_per_worker": 2})


def test_a_service_says_how_its_pods_look(terminal: Terminal, developer: str, tmp_path: Path) -> None:
    version_of(team("vision"), "tiny:v1")
    Cluster.objects.create(name="west", kind="kubernetes", settings={"env_secrets": ["keys"]})
    file = tmp_path / "pod.json"
    file.write_text('{"priority_class": "serving", "env": {"A": "1"}}')
    words = ("service", "create", "chat", "tiny:v1", "--engine", "vllm", "--cluster", "west", "--pod", file)

    refused = terminal(*words, "--memory", "much")
    assert (refused.status, "resources.memory" in refused.err) == (2, True), refused
    said = terminal(
        *words, "--cpus", "2:4", "--memory", "16Gi", "--node-selector", "pool=a", "--env", "B=x=y",
        "--toleration", "gpu:NoSchedule", "--toleration", "team=a", "--secret-env", "TOKEN=keys/token",
    )  # fmt: skip
    assert said.status == 0, said

    service = Service.objects.get(name="chat")
    assert service.resources == {"cpus": "2", "cpu_limit": "4", "memory": "16Gi"}
    assert service.pod == {
        "priority_class": "serving",
        "node_selector": {"pool": "a"},
        "tolerations": [{"key": "gpu", "effect": "NoSchedule"}, {"key": "team", "value": "a"}],
        "env": {"A": "1", "B": "x=y"},
        "secret_env": {"TOKEN": {"secret": "keys", "key": "token"}},
    }


def test_a_service_is_changed_in_what_is_named_and_keeps_the_rest(terminal: Terminal, developer: str) -> None:
    version_of(team("vision"), "tiny:v1")
    Cluster.objects.create(name="west", kind="kubernetes")
    words = (
        "service",
        "create",
        "chat",
        "tiny:v1",
        "--engine",
        "vllm",
        "--cluster",
        "west",
        "--env",
        "LEVEL=1",
    )
    assert terminal(*words, "--cpus", "2", "--toleration", "gpu", "--pull-secret", "hub").status == 0
    said = terminal(
        "service", "change", "chat", "--replicas", 3, "--memory", "16Gi", "--gpus", 2, "--env", "COLOUR=red",
        "--unset", "pod.env.LEVEL", "--unset", "pod.tolerations", "--topology-spread", "zone:2:DoNotSchedule",
        "--priority-class", "serving", "--runtime-class", "nvidia", "--pull-secret", "hub",
    )  # fmt: skip
    assert said.status == 0, said.err
    service = Service.objects.get(name="chat")
    assert service.replicas == 3
    assert service.resources == {"cpus": "2", "memory": "16Gi", "gpus_per_worker": 2}
    assert service.pod == {
        "env": {"COLOUR": "red"},
        "image_pull_secrets": ["hub"],
        "topology_spread": [{"topology_key": "zone", "max_skew": 2, "when_unsatisfiable": "DoNotSchedule"}],
        "priority_class": "serving",
        "runtime_class": "nvidia",
    }
    assert "Nothing is to be changed" in terminal("service", "change", "chat").err
    assert "nothing is set there" in terminal("service", "change", "chat", "--unset", "pod.env.LEVEL").err
    wrong = terminal("service", "change", "chat", "--env", "PORT=1")
    assert (wrong.status, "set by Slipway" in wrong.err) == (2, True)


def test_a_service_tells_its_release_key_once(terminal: Terminal, scene: Scene) -> None:
    said = terminal("service", "release-header", "--yes", scene.name, "secret")
    assert said.status == 0
    scene.service.refresh_from_db()
    assert said.out.strip() == opened_key(scene.service.sealed_release_key)
    assert terminal("service", "release-header", "--yes", scene.name, "off").out == ""
    scene.service.refresh_from_db()
    assert (scene.service.release_header, scene.service.sealed_release_key) == ("off", "")
    assert terminal("service", "release-header", "--yes", scene.name, "ajar").status == 2


def test_only_who_may_bypass_opens_the_candidate_of_a_service(terminal: Terminal, scene: Scene) -> None:
    opening = ("service", "release-header", "--yes", scene.name, "open")
    said = terminal(*opening, "--reason", "urgent")
    assert (said.status, "releases.bypass" in said.err) == (7, True), said
    boss = token_for(scene._person("cleo", Role.ADMIN))
    said = terminal(*opening, token=boss)
    assert (said.status, "reason: It would no longer demand" in said.err) == (2, True), said
    assert terminal(*opening, "--reason", "a playground", token=boss).status == 0
    said = terminal(
        "service", "create", "twin", str(scene.v1), "--engine", "echo", "--release-header", "open"
    )
    assert said.status == 7
    assert "twin is created, but its release header is not set." in said.err


def test_a_patch_of_pods_is_proposed_by_one_and_approved_by_another(
    terminal: Terminal, scene: Scene, tmp_path: Path
) -> None:
    Cluster.objects.update(kind="kubernetes")
    file = tmp_path / "patch.json"
    file.write_text('{"spec": {"schedulerName": "volcano", "nodeName": "gpu-1"}}')
    words = ("service", "pod-patch")
    refused = terminal(*words, "propose", scene.name, file, "--reason", "gang")
    assert (refused.status, "patch.spec.nodeName" in refused.err) == (2, True), refused
    file.write_text('{"spec": {"schedulerName": "volcano"}}')
    proposed = terminal(*JSON, *words, "propose", scene.name, file, "--reason", "gang")
    assert proposed.status == 0, proposed
    number = proposed.document["id"]
    own = terminal(*words, "approve", scene.name, number, "--reason", "fine")
    assert own.status == 7, own
    terminal.token = token_of(person("nina", **{scene.team.name: Role.APPROVER}))
    assert terminal(*words, "approve", scene.name, number, "--reason", "fine").status == 0
    assert "approved" in terminal(*words, "list", scene.name).out
