"""`slipway cluster` and the agents of `slipway node`."""

import base64
from pathlib import Path

import pytest
import yaml
from django.utils import timezone

from accounts.models import ApiToken
from accounts.services.tokens import use_token
from clusters.backends.fake import NODE, FakeClusterBackend
from clusters.backends.observed_pods import ObservedPod
from clusters.models import AgentToken, Cluster, Drain, Gpu, Node
from common.models import AuditRecord
from common.reconcile.pulses import ProcessIdentity, WorkDone, give
from gateway.models import Gateway
from slipway.cli.kubeconfig import whole_kubeconfig
from slipway.exits import CommandFailed
from tests.cast import person, token_of
from tests.clusters.kubernetes.kubeconfigs import EXEC, kubeconfig
from tests.slipway.conftest import Terminal


@pytest.fixture
def root(terminal: Terminal) -> Terminal:
    terminal.token = token_of(person("root", superuser=True))
    return terminal


@pytest.fixture
def local(terminal: Terminal) -> Cluster:
    row = Cluster.objects.create(name="local", kind="embedded", host="prague")
    Node.objects.create(cluster=row, uid="box-1", name="box-1", seen_at=timezone.now())
    return row


def test_a_cluster_is_given_to_a_host_that_lives(root: Terminal, local: Cluster) -> None:
    move = ("cluster", "move", "local", "--to", "brno", "--reason", "It burnt down.", "--yes")
    refused = root(*move)
    assert refused.status != 0
    assert "No worker or sweeper of brno" in refused.err
    give(ProcessIdentity("worker", "brno", 1, "box-brno"), at=timezone.now(), work=WorkDone())
    assert root(*move).status == 0
    assert "brno" in root("cluster", "list").out
    assert AuditRecord.objects.get(action="cluster.move").reason == "It burnt down."


def test_the_agent_of_a_machine_gets_a_token_and_loses_it(root: Terminal, local: Cluster) -> None:
    made = root("node", "agent-token", "--yes", "box-1", "--expires-in-days", "30")
    assert made.status == 0, made.err
    token = use_token(made.out.strip().splitlines()[-1])
    assert AgentToken.objects.get().token == token
    assert "No watcher of local" in root("node", "events", "box-1").out
    gone = root("node", "remove-agent", "--yes", "box-1", "--reason", "Its workers report by themselves.")
    assert gone.status == 0, gone.err
    assert not AgentToken.objects.exists()
    assert ApiToken.objects.get(pk=token.pk).revoked_at is not None


@pytest.fixture
def kubernetes(settings) -> None:
    settings.SLIPWAY_CLUSTER_BACKENDS = settings.SLIPWAY_CLUSTER_BACKENDS | {
        "kubernetes": "clusters.backends.kubernetes.configured"
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig())
    return path


def with_files(path: Path, *, key: str = "pki/admin.key") -> Path:
    """A kubeconfig beside files, as minikube and kwokctl write theirs."""
    (path / "pki").mkdir()
    for name in ("ca.crt", "admin.crt", "admin.key"):
        (path / "pki" / name).write_text(f"-----BEGIN {name}-----")
    config = yaml.safe_load(kubeconfig())
    (cluster,), (user,) = config["clusters"], config["users"]
    cluster["cluster"] = {"server": "https://10.0.0.1", "certificate-authority": "pki/ca.crt"}
    user["user"] = {"client-certificate": str(path / "pki/admin.crt"), "client-key": key}
    file = path / "config"
    file.write_text(yaml.safe_dump(config))
    return file


def test_what_a_kubeconfig_names_by_file_is_handed_in_with_it(tmp_path: Path) -> None:
    config = yaml.safe_load(whole_kubeconfig(with_files(tmp_path), named="--kubeconfig"))
    assert sorted(config["users"][0]["user"]) == ["client-certificate-data", "client-key-data"]
    data = config["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(data) == b"-----BEGIN ca.crt-----"


def test_a_file_that_a_kubeconfig_names_in_vain_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"--kubeconfig .*names .*gone\.key: No such file"):
        whole_kubeconfig(with_files(tmp_path, key="gone.key"), named="--kubeconfig")


@pytest.mark.parametrize("text", ["a: b: c", "[]", "kind: Config", "contexts: {}", "users: [1]"])
def test_what_is_no_kubeconfig_is_left_to_the_server(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    assert whole_kubeconfig(file, named="--kubeconfig") == text


@pytest.mark.usefixtures("kubernetes")
def test_a_cluster_is_added_with_its_kubeconfig_and_its_checks_end_the_command(
    root: Terminal, file: Path
) -> None:
    root.while_waiting = lambda: Cluster.objects.update(
        checked_at=timezone.now(),
        checks=[{"name": "reachable", "result": "failed", "detail": "It takes no connection."}],
    )
    said = root(
        "cluster", "add", "prod", "--kubeconfig", file, "--context", "prod", "--namespace", "ml",
        "--region", "eu", "--provider", "aws", "--label", "tier=gold", "--set", "node_cache=/srv/models",
    )  # fmt: skip
    assert said.status == 1
    assert "It takes no connection." in said.out
    assert "prod fails its checks: reachable." in said.err
    row = Cluster.objects.get(name="prod")
    assert row.settings == {"context": "prod", "namespace": "ml", "node_cache": "/srv/models"}
    assert (row.region, row.provider, row.labels) == ("eu", "aws", {"tier": "gold"})
    assert "a-token-that-nobody-may-see" not in said.out + said.err


@pytest.mark.usefixtures("kubernetes")
def test_what_is_changed_keeps_the_other_settings(root: Terminal, file: Path) -> None:
    assert root("cluster", "add", "prod", "--kubeconfig", file, "--namespace", "ml", "--no-wait").status == 0
    assert root("cluster", "change", "prod", "--context", "prod", "--provider", "gcp").status == 0
    row = Cluster.objects.get(name="prod")
    assert (row.settings, row.provider) == ({"context": "prod", "namespace": "ml"}, "gcp")
    assert root("cluster", "change", "prod").status == 2
    assert root("cluster", "add", "other").status == 2
    file.write_text(EXEC)
    refused = root("cluster", "change", "prod", "--kubeconfig", file)
    assert (refused.status, "signs in by the program 'aws'" in refused.err) == (2, True)


def test_the_manifest_can_be_piped_to_kubectl(root: Terminal) -> None:
    said = root("cluster", "manifest", "--namespace", "ml", "--feature", "jobs")
    found = [one for one in yaml.safe_load_all(said.out) if one["kind"] == "Role"]
    names = {name for rule in found[0]["rules"] for name in rule["resources"]}
    assert found[0]["metadata"]["namespace"] == "ml"
    assert "jobs" in names
    assert "httproutes" not in names
    assert root("cluster", "manifest", "--feature", "magic").status == 2


def test_a_cluster_goes_when_nothing_runs_there(root: Terminal, local: Cluster) -> None:
    assert root("cluster", "remove", "local", "--yes").status == 2
    said = root("cluster", "remove", "local", "--yes", "--reason", "It is sold.")
    assert (said.status, said.out) == (0, "local is being removed.\n")
    assert "removing" in root("cluster", "list").out


def test_a_machine_is_drained_previewed_and_the_drain_cancelled(
    root: Terminal, local: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = FakeClusterBackend()
    world.node_operations.others.append(
        ObservedPod(uid="1", name="notebook", namespace="theirs", gpus={"nvidia.com/gpu": 1})
    )
    monkeypatch.setattr("clusters.services.drains.backend_of", lambda _cluster: world)
    Node.objects.update(uid=NODE.uid)
    shown = root("node", "drain", "box-1", "--preview")
    assert shown.status == 0, shown.err
    assert "theirs/notebook" in shown.out
    assert "It cannot be done so: theirs/notebook" in shown.err + shown.out
    assert root("node", "drain", "box-1", "--preview", "--namespace", "theirs").status == 2
    assert "left" in root("node", "drain", "box-1", "--preview", "--namespace", "theirs=leave").out
    ordered = root("node", "drain", "--yes", "box-1", "--force", "--reason", "GPU 0 is to be replaced.")
    assert ordered.status == 0, ordered.err
    assert "cordoning" in root("node", "drains").out
    assert root("node", "drain", "--yes", "box-1", "--reason", "Twice.").status != 0
    assert root("node", "cancel-drain", "box-1", "--reason", "Not today.").status == 0
    assert Drain.objects.get().cancel_reason == "Not today."
    Drain.objects.update(state="cancelled")
    assert root("node", "cancel-drain", "box-1", "--reason", "Again.").status == 2


def test_how_incidents_drain_is_shown_and_changed(root: Terminal) -> None:
    drains = ("gpu", "healing", "drains")
    assert "by the defaults" in root(*drains).err + root(*drains).out
    changed = root(*drains, "--within", "7200", "--namespace", "batch=leave", "--reason", "Jobs finish.")
    assert changed.status == 0, changed.err
    more = root(*drains, "--grace", "300", "--reason", "They are slow.")
    assert "batch" in more.out
    assert ("7200" in more.out, "300" in more.out) == (True, True)
    assert root(*drains, "--checkpoint-url", "batch", "--reason", "x").status == 2
    assert root(*drains, "--checkpoint-url", "batch=https://a.example/", "--reason", "x").status != 0
    assert root(*drains, "--reset", "--reason", "As before.").status == 0


def test_a_clusters_capacity_is_told_by_type(root: Terminal, local: Cluster) -> None:
    node = Node.objects.get()
    Gpu.objects.create(cluster=local, node=node, uuid="GPU-1", index=0, name="NVIDIA H100")
    shown = root("cluster", "capacity", "local")
    assert shown.status == 0, shown.err
    assert "NVIDIA H100" in shown.out
    assert "has been silent since it was added" in shown.err + shown.out


def test_the_gateway_of_a_cluster_is_set_changed_and_cleared(root: Terminal, local: Cluster) -> None:
    gateway = ("cluster", "gateway")
    assert root(*gateway, "show", "local").status == 2
    assert "--kind" in root(*gateway, "set", "local", "--yes", "--metrics", "workers").err
    made = root(
        *gateway, "set", "local", "--yes", "--kind", "envoy", "--set", "port=9001", "--set", "bind=0.0.0.0"
    )
    assert made.status == 0, made.err
    changed = root(
        *gateway, "set", "local", "--yes", "--public-url", "https://models.example", "--set", "bind="
    )
    assert changed.status == 0, changed.err
    row = Gateway.objects.get()
    assert (row.kind, row.settings, row.public_url) == ("envoy", {"port": 9001}, "https://models.example")
    assert "setting port" in root(*gateway, "show", "local").out
    assert root(*gateway, "clear", "local", "--yes").status == 2
    cleared = root(*gateway, "clear", "local", "--yes", "--reason", "Another one comes.")
    assert (cleared.status, Gateway.objects.count()) == (0, 0), cleared.err
    assert AuditRecord.objects.get(action="gateway.remove").reason == "Another one comes."
