"""The Helm chart makes the objects of the Kustomize bases; the Prometheus Operator takes those for it."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from controlplane.environment import PROJECT
from tests.deploy.kustomize import Document, pod_spec, render

CHART = PROJECT / "deploy/chart"
MONITORING = PROJECT / "deploy/monitoring"
NAMESPACE = "slipway-system"
OF_HELM = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/part-of",
    "helm.sh/chart",
}
SMALL = {
    "settings": {
        "SLIPWAY_ALLOWED_HOSTS": "localhost,slipway-web,slipway-web.slipway-system.svc",
    },
    "models": {"claim": True},
    "web": {"minReplicas": 1, "maxReplicas": 1},
    "worker": {"replicas": 1},
    "sweeper": {"replicas": 1},
}
PRODUCTION = {
    "image": {"digest": f"sha256:{'0' * 64}"},
    "address": "https://slipway.example.org",
    "settings": {
        "SLIPWAY_TRUSTED_PROXIES": "10.0.0.0/8",
        "SLIPWAY_STORE": "s3://slipway-models",
        "SLIPWAY_STORE_REGION": "eu-central-1",
        "SLIPWAY_BACKUP_MAX_AGE_HOURS": "26",
    },
    "worker": {"replicas": 3},
    "home": {"size": "200Gi"},
    "ingress": {"enabled": True},
}


class Helm:
    """`helm template` and `helm lint` by Helm's own library."""

    def __init__(self) -> None:
        self._library = pytest.importorskip("helm_python", reason="pip install helm-python-sdk")

    def template(self, **values: Any) -> dict[tuple[str, str], Document]:
        with self._library.Chart.load(CHART) as chart:
            text = chart.render(values, name="slipway", namespace=NAMESPACE)
        return keyed([one for one in yaml.safe_load_all(text["slipway/templates/objects.yaml"]) if one])

    def refusal(self, **values: Any) -> str:
        with pytest.raises(Exception) as refused:
            self.template(**values)
        return str(refused.value)

    def lint(self, **values: Any) -> list[str]:
        report = self._library.lint(CHART, values, strict=True)
        return [one["error"] for one in report["messages"] if one["severity"] > 1]


@pytest.fixture(scope="module")
def helm() -> Helm:
    return Helm()


def keyed(documents: list[Document]) -> dict[tuple[str, str], Document]:
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


def comparable(objects: dict[tuple[str, str], Document]) -> dict[tuple[str, str], Document]:
    """Without what Helm adds: its labels, a Job's name by what it does, new pods for new settings."""
    found = {}
    for (kind, name), one in objects.items():
        metadata = one["metadata"]
        labels = {key: value for key, value in metadata.get("labels", {}).items() if key not in OF_HELM}
        called = re.sub(r"^(slipway-prepare)-[0-9a-f]{8}$", r"\1", name)
        found[kind, called] = one | {"metadata": metadata | {"labels": labels, "name": called}}
        if pod_spec(one):
            one["spec"]["template"]["metadata"].pop("annotations", None)
    return found


@pytest.mark.parametrize(("overlay", "values"), [("small", SMALL), ("production", PRODUCTION)])
def test_the_chart_makes_what_the_overlay_makes(helm: Helm, overlay: str, values: dict[str, Any]) -> None:
    wanted = comparable(keyed(render(PROJECT / "deploy/overlays" / overlay)))
    del wanted["Namespace", NAMESPACE]

    made = comparable(helm.template(**values))

    assert made.keys() == wanted.keys()
    for key, one in wanted.items():
        assert made[key] == one, key


def test_its_values_reach_the_pods(helm: Helm) -> None:
    made = helm.template(
        models={"claim": True},
        image={"repository": "mirror.example:5000/slipway", "digest": f"sha256:{'1' * 64}"},
        database={"secret": "mine", "ports": [6432], "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]},
        worker={"resources": {"limits": {"memory": "3Gi"}}},
        tolerations=[{"key": "control"}],
    )

    pod = made["Deployment", "slipway-worker"]["spec"]["template"]["spec"]
    (worker,) = pod["containers"]
    assert worker["image"] == f"mirror.example:5000/slipway@sha256:{'1' * 64}"
    assert worker["resources"] == {
        "requests": {"cpu": "250m", "memory": "768Mi"},
        "limits": {"memory": "3Gi"},
    }
    assert worker["envFrom"][1] == {"secretRef": {"name": "mine"}}
    assert pod["tolerations"] == [{"key": "control"}]
    (rule,) = made["NetworkPolicy", "data"]["spec"]["egress"]
    assert rule["ports"] == [{"port": 6432, "protocol": "TCP"}]
    assert rule["to"] == [{"ipBlock": {"cidr": "10.1.0.0/16"}}]


def test_another_setting_is_another_migration_and_new_pods(helm: Helm) -> None:
    first = helm.template(models={"claim": True})
    other = helm.template(models={"claim": True}, settings={"SLIPWAY_LOG_LEVEL": "DEBUG"})

    def jobs(made: dict[tuple[str, str], Document]) -> set[str]:
        return {name for kind, name in made if kind == "Job"}

    assert jobs(first).isdisjoint(jobs(other))
    pods = [made["Deployment", "slipway-web"]["spec"]["template"] for made in (first, other)]
    assert pods[0]["metadata"]["annotations"] != pods[1]["metadata"]["annotations"]
    assert pods[0]["spec"] == pods[1]["spec"]


def test_values_that_cannot_be_are_refused_in_words(helm: Helm) -> None:
    assert helm.lint(models={"claim": True}) == []
    assert "settings.SLIPWAY_STORE" in helm.refusal()
    wrong = ({"imgae": {}}, {"address": "slipway"}, {"settings": {"DEBUG": "1"}}, {"home": {"size": "big"}})
    for values in wrong:
        assert "schema" in helm.refusal(models={"claim": True}, **values), values


def test_the_chart_is_of_this_release() -> None:
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_monitoring_is_that_of_kustomize_with_the_labels_of_a_prometheus(helm: Helm) -> None:
    values = {"enabled": True, "labels": {"release": "prometheus"}, "tokenSecret": "readers"}
    made = helm.template(models={"claim": True}, monitoring=values)

    for key, wanted in keyed(render(MONITORING)).items():
        assert made[key]["metadata"]["labels"]["release"] == "prometheus"
        if key == ("PodMonitor", "slipway"):
            for endpoint in wanted["spec"]["podMetricsEndpoints"]:
                endpoint["authorization"]["credentials"]["name"] = "readers"
        assert made[key]["spec"] == wanted["spec"]


def closed(schema: Any) -> Any:
    """Refuses fields that it does not name, as an API server does with strict validation."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        found["additionalProperties"] = False
    return found


def test_the_operators_definitions_take_every_object_and_every_field() -> None:
    documents = render(MONITORING)
    assert {one["kind"] for one in documents} == {"PodMonitor", "PrometheusRule"}
    for one in documents:
        schema = closed(json.loads((Path(__file__).parent / f"crds/{one['kind']}.json").read_text()))
        # Kubernetes checks metadata itself.
        schema["properties"]["metadata"] = {"type": "object"}
        validator = jsonschema.Draft202012Validator(schema)
        validator.validate(one)
        with pytest.raises(jsonschema.ValidationError, match="unknown"):
            validator.validate(one | {"spec": one["spec"] | {"unknown": {}}})


def test_monitors_find_the_ports_that_pods_have() -> None:
    spec = keyed(render(MONITORING))["PodMonitor", "slipway"]["spec"]
    pods = [
        one["spec"]["template"]
        for one in render(PROJECT / "deploy/overlays/production")
        if one["kind"] == "Deployment"
    ]
    (chosen,) = spec["selector"]["matchExpressions"]
    asked = {one["port"] for one in spec["podMetricsEndpoints"]}
    for pod in pods:
        assert pod["metadata"]["labels"][chosen["key"]] in chosen["values"]
        assert {port["name"] for port in pod["spec"]["containers"][0]["ports"]} <= asked


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool here")
def test_promtool_takes_the_rules_of_the_object(tmp_path: Path) -> None:
    spec = yaml.safe_load((MONITORING / "rules.yaml").read_text())["spec"]
    assert spec == yaml.safe_load((PROJECT / "docs/alerts.yaml").read_text())
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))
    subprocess.run(["promtool", "check", "rules", tmp_path / "rules.yaml"], check=True, timeout=60)
