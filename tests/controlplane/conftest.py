"""Fixtures of the tests of what Prometheus reads."""

import pytest

from common.health import HealthProbe, Unhealthy
from controlplane import health
from tests.accounts.rights_matrix import Scene


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent() -> str:
        raise Unhealthy("never heard of")

    probes = (
        HealthProbe("database", lambda: "sqlite", vital=True),
        HealthProbe("worker", silent, vital=False),
    )
    monkeypatch.setattr(health.parts_health, "__defaults__", (probes,))


@pytest.fixture
def scene(tmp_path, settings) -> Scene:
    settings.SLIPWAY_IMPORT_ROOTS = (tmp_path,)
    return Scene.of_superuser()
