"""Where the navigation leads, and how every state looks."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from django.db.models import TextChoices
from django.test import Client
from django.urls import Resolver404, resolve

from common.pages.badges import badges_named
from common.pages.shell import nav_items
from tests import cast

BASE = Path(__file__).parents[2] / "templates/base.html"
KINDS = {
    "clusters.Alert": "alert",
    "clusters.CheckResult": "check",
    "clusters.ClusterState": "cluster",
    "clusters.DeploymentState": "deployment",
    "clusters.DrainState": "drain",
    "clusters.NodeState": "node",
    "clusters.WorkerState": "worker",
    "accounts.DeliveryState": "delivery",
    "accounts.TokenState": "token",
    "gpu_health.CheckState": "gpu_check",
    "gpu_health.DrillState": "gpu_drill",
    "gpu_health.FindingOutcome": "gpu_outcome",
    "gpu_health.FindingSeverity": "gpu_severity",
    "gpu_health.FindingState": "gpu_finding",
    "gpu_health.IncidentState": "gpu_incident",
    "images.ImageState": "image",
    "images.Outcome": "trial",
    "model_store.CorruptBlobState": "finding",
    "model_store.RunState": "run",
    "hubs.TransferState": "transfer",
    "models_registry.UploadState": "upload",
    "models_registry.VersionState": "version",
    "releases.PatchState": "pod_patch",
    "releases.ReleaseState": "release",
    "releases.StepState": "step",
}
NOT_STATES = {
    "accounts.AccountKind",
    "accounts.Right",
    "accounts.Role",
    "accounts.RoleSource",
    "clusters.ClusterKind",
    "clusters.GpuSharing",
    "clusters.GpuState",
    "clusters.Group",
    "clusters.NodeOperation",
    "gpu_health.DrainScope",
    "gpu_health.DrillWay",
    "gpu_health.HealingMode",
    "gpu_health.RuleMode",
    "gpu_health.RuleVerification",
    "images.Acceleration",
    "hubs.Cause",
    "trust.SignatureDemand",
    "models_registry.SignatureOrigin",
    "trust.SignatureVerdict",
    "hubs.ExportKind",
    "hubs.HubKind",
    "releases.Decision",
    "releases.Halt",
    "releases.ReleaseHeader",
    "releases.ThresholdSource",
}
"""Choices that are shown in words, never as a state."""


def choices() -> dict[str, type[TextChoices]]:
    found = {}
    for app in (
        "accounts",
        "images",
        "hubs",
        "model_store",
        "models_registry",
        "trust",
        "clusters",
        "gpu_health",
        "releases",
    ):
        module = import_module(f"{app}.states")
        for name, value in vars(module).items():
            if name.startswith("_"):
                continue
            if (
                isinstance(value, type)
                and issubclass(value, TextChoices)
                and value.__module__ == module.__name__
            ):
                found[f"{app}.{name}"] = value
    return found


def test_every_link_of_the_frame_leads_somewhere():
    literal = set(re.findall(r'(?:href|action|hx-get)="(/[^"{#]*)"', BASE.read_text()))
    wanted = literal | {place.path for place in nav_items()}
    assert {"/settings/account/", "/settings/tokens/", "/search/"} <= wanted
    for path in wanted:
        try:
            resolve(path)
        except Resolver404:
            pytest.fail(f"The frame leads to {path}, which nobody serves.")


def test_every_choice_of_the_apps_is_known_to_this_test():
    assert set(choices()) == set(KINDS) | NOT_STATES


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_state_has_a_word_a_colour_and_an_icon(name):
    values = {value for value in choices()[name].values if value}
    assert values <= set(badges_named(KINDS[name]))


@pytest.mark.any_database
@pytest.mark.django_db
@pytest.mark.parametrize("place", nav_items(), ids=lambda place: place.path)
def test_every_place_opens_for_a_viewer_and_for_an_administrator(place):
    for user in (cast.person("vic", vision="viewer"), cast.person("root", superuser=True)):
        client = Client()
        client.force_login(user)
        answer = client.get(place.path, follow=True)
        is_closed = place.name == "Audit" and not user.is_superuser
        assert answer.status_code == (403 if is_closed else 200)
        assert 'aria-current="page"' in answer.content.decode()
