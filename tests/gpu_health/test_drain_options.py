"""How incidents drain their machines is set on a page, by the same rules as by REST."""

import pytest

from clusters.draining.options import DrainOptions, NamespacePolicy, PodPolicy
from gpu_health.incident_facts import policy
from tests.cast import client_of, person

pytestmark = pytest.mark.django_db
PAGE = "/gpu-health/drains/"
GIVEN = {
    "reason": "Training writes checkpoints.",
    "within_minutes": "120",
    "checkpoint_minutes": "30",
    "replace_minutes": "5",
    "grace_seconds": "300",
    "local_data_may_go": "on",
    "namespaces": "training = finish:3600\nkube-system = leave",
}


def test_an_operator_sets_how_incidents_drain() -> None:
    root = client_of(person("root", superuser=True))
    shown = root.get(PAGE)
    assert shown.status_code == 200
    revision = shown.context["form"].initial["revision"]
    assert shown.context["form"].initial["local_data_may_go"] is True
    answer = root.post(PAGE, {**GIVEN, "revision": revision})
    assert answer.status_code == 302, answer.context["form"].errors
    held = policy().drain
    assert held == {
        "within_seconds": 7200,
        "checkpoint_seconds": 1800,
        "replace_seconds": 300,
        "grace_seconds": 300,
        "namespaces": {
            "training": {"policy": "finish", "within_seconds": 3600, "checkpoint_url": ""},
            "kube-system": {"policy": "leave", "within_seconds": 3600, "checkpoint_url": ""},
        },
    }
    assert DrainOptions.read(held).policy_of("training") == NamespacePolicy(PodPolicy.FINISH, 3600)


def test_what_cannot_be_meant_is_told_at_its_field() -> None:
    root = client_of(person("root", superuser=True))
    for wrong in ("training = perhaps", "training = evict https://hooks.example.org/"):
        answer = root.post(PAGE, {**GIVEN, "namespaces": wrong, "revision": "1"})
        assert answer.status_code == 422
        assert answer.context["form"].errors["namespaces"]
    assert policy().drain == {}
