"""What is written of the measures: documentation, alerts, dashboard and runbook."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from controlplane.dashboard import queries
from tests.accounts.rights_matrix import Scene
from tests.controlplane.alert_cases import CASES
from tests.controlplane.metrics import Reading

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("parts")]

DOCS = settings.BASE_DIR / "docs"


def test_the_documentation_names_every_measure_and_no_other(client: Client, scene: Scene) -> None:
    _ = scene.worker
    client.get("/healthz")
    families = text_string_to_metric_families(client.get("/metrics").content.decode())
    told = re.findall(r"`(slipway_[a-z_]+)", (settings.BASE_DIR / "docs" / "API.md").read_text())

    found = {family.name for family in families if family.name.startswith("slipway_")}
    assert found == {name.removesuffix("_total") for name in told}


def families_of(text: str) -> set[str]:
    """Names of the series that there may be, those of families without samples too."""
    suffixes = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
    named = re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE)
    return {name + suffix for name, kind in named for suffix in suffixes[kind]}


def test_every_alert_and_every_panel_is_about_measures_that_there_are(client: Client, scene: Scene) -> None:
    _ = scene.worker
    client.get("/accounts/login/")
    there = families_of(client.get("/metrics").content.decode())
    alerts = [rule["expr"] for rule in rules()]
    panels = [
        target["expr"]
        for panel in json.loads((DOCS / "dashboard.json").read_text())["panels"]
        for target in panel.get("targets", ())
    ]
    assert len(alerts) > 10
    assert len(panels) > 20
    for query in (*alerts, *panels):
        asked = set(re.findall(r"\b(?:slipway|process)_\w+", query))
        assert asked, query
        assert asked <= there, query


def test_every_state_that_an_alert_waits_for_is_told(client: Client, scene: Scene) -> None:
    _ = scene.worker
    read = Reading(client)
    waited = [
        found for rule in rules() for found in re.findall(r'slipway_(\w+){(\w+)="(\w+)"}', rule["expr"])
    ]
    assert len(waited) >= 5
    for name, label, value in waited:
        # Of services, pools, teams or objectives that have some.
        if name in ("jobs", "capacity_plan", "usage_budgets") or name.startswith("objective_"):
            continue
        assert read(name, **{label: value}) is not None, name


def test_every_alert_has_a_section_in_the_runbook() -> None:
    headings = re.findall(r"^### (\w+)$", (DOCS / "PRODUCTION.md").read_text(), re.MULTILINE)
    assert {heading for heading in headings if heading.startswith("Slipway")} == {
        rule["alert"] for rule in rules()
    }
    for rule in rules():
        assert rule["annotations"]["runbook"] == f"docs/PRODUCTION.md#{rule['alert'].lower()}"


def test_of_every_alert_it_is_said_when_it_fires() -> None:
    assert {case.alert for case in CASES if case.firing} == {rule["alert"] for rule in rules()}
    for case in CASES:
        assert case.quiet, case.alert


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool here")
class TestPromtool:
    def test_accepts_rules_queries_and_measures(self, client: Client, scene: Scene, tmp_path: Path) -> None:
        _ = scene.worker
        panels = {"groups": [{"name": "panels", "rules": [
            {"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries())
        ]}]}  # fmt: skip
        (tmp_path / "panels.yaml").write_text(yaml.safe_dump(panels))
        promtool("check", "rules", DOCS / "alerts.yaml", tmp_path / "panels.yaml")
        assert "error" not in promtool("check", "metrics", given=client.get("/metrics").content)

    def test_every_alert_fires_when_it_should_and_stops(self, tmp_path: Path) -> None:
        cases = {"rule_files": [str(DOCS / "alerts.yaml")], "tests": [case.written() for case in CASES]}
        (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))
        promtool("test", "rules", tmp_path / "cases.yaml")


def promtool(*arguments: str | Path, given: bytes | None = None) -> str:
    """Return promtool's output; promtool must accept."""
    told = subprocess.run(["promtool", *arguments], input=given, capture_output=True, check=False)
    said = (told.stdout + told.stderr).decode()
    assert told.returncode == 0, said
    return said


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((DOCS / "alerts.yaml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found
