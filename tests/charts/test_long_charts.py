"""Charts of more than 30 days, read back from a real Prometheus that has scraped `/metrics` all the while."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from clusters.models import Cluster
from tests.cast import api, client_of, person
from tests.clusters.world import node_of
from tests.production.site import free_port

pytestmark = [pytest.mark.process, pytest.mark.django_db, pytest.mark.any_database]
HOUR = 3_600
WITHIN_SECONDS = 30


def written(path: Path) -> Path:
    """Write 60 days of two processes that show how busy a machine was: 20 % at first, 80 % later."""
    now = int(time.time()) // HOUR * HOUR
    lines = ["# TYPE slipway_machine_busy_ratio gauge"]
    for instance in "ab":
        labels = f'cluster="prod",machine="box-1",instance="{instance}"'
        for at in range(now - 60 * 24 * HOUR, now - 24 * HOUR, HOUR):
            busy = 0.2 if at < now - 40 * 24 * HOUR else 0.8
            lines.append(f"slipway_machine_busy_ratio{{{labels}}} {busy} {at}")
    path.write_text("\n".join([*lines, "# EOF", ""]))
    return path


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[str]:
    data, config, port = tmp_path / "data", tmp_path / "prometheus.yml", free_port()
    texts = written(tmp_path / "texts")
    make = [
        "promtool",
        "tsdb",
        "create-blocks-from",
        "--max-block-duration=1440h",
        "openmetrics",
        str(texts),
        str(data),
    ]
    subprocess.run(make, check=True, capture_output=True, timeout=WITHIN_SECONDS)
    config.write_text("global: {}\n")
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=1y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command) as process:
        try:
            until = time.monotonic() + WITHIN_SECONDS
            while not _is_ready(url):
                assert time.monotonic() < until, "Prometheus did not start"
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def _is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/-/ready", timeout=2).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="there is no Prometheus here")
def test_a_quarter_of_a_machine_comes_from_prometheus(prometheus: str, settings: Any) -> None:
    node = node_of(Cluster.objects.create(name="prod", kind="kubernetes"), "box-1")
    root = person("root", superuser=True)
    path = f"charts/machine/{node.pk}/?range=90d"
    assert api(root).get(path).status_code == 400, "nobody has named a Prometheus"

    settings.SLIPWAY_PROMETHEUS_URL = prometheus
    document = api(root).get(path).json()
    (chart,) = document["charts"]
    values = [one for one in chart["lines"][0]["values"] if one is not None]
    assert document["step_seconds"] == 6 * HOUR
    assert len(values) == pytest.approx(59 * 4, abs=2)
    assert (values[0], values[-1]) == (pytest.approx(0.2), pytest.approx(0.8))
    assert "80.0%" in client_of(root).get(f"/charts/machine/{node.pk}/?range=90d").content.decode()


def test_a_prometheus_that_is_down_takes_the_long_charts_alone(settings: Any) -> None:
    settings.SLIPWAY_PROMETHEUS_URL = f"http://127.0.0.1:{free_port()}"
    node = node_of(Cluster.objects.create(name="prod", kind="kubernetes"), "box-1")
    root = person("root", superuser=True)
    assert api(root).get(f"charts/machine/{node.pk}/?range=90d").status_code == 503
    page = client_of(root).get(f"/charts/machine/{node.pk}/?range=90d")
    assert page.status_code == 200
    assert "Prometheus: " in page.content.decode()
    assert api(root).get(f"charts/machine/{node.pk}/?range=30d").status_code == 200
