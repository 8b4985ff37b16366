"""A row becomes a real answer by the settings' own Envoy, also after its files are lost."""

import shutil
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command

from common.actor import Actor
from common.fence import Fence
from gateway import selectors
from gateway.backends import configured
from gateway.backends.envoy.backend import EnvoyFiles
from gateway.models import Gateway
from gateway.reconcilers import LOOK_EVERY, GatewayReconciler
from gateway.routes import RouteSpec, WorkerEndpoint
from gateway.services import routes
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from releases.split import interval_percent
from tests.crash.harness import Clock, worker
from tests.gateway.cast import cluster, reweigh, set_route
from tests.gateway.counting import routed_since
from tests.patience import eventually

ANN = Actor(name="ann", user_id=1, via="web")

pytestmark = [pytest.mark.stack, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def embedded(stack: EnvoyStack, settings):
    """The settings name the running Envoy."""
    settings.SLIPWAY_GATEWAY_BACKENDS = {"envoy": "gateway.backends.envoy.configured"}
    settings.SLIPWAY_RUN_DIR = stack.layout.run_dir.parent
    settings.SLIPWAY_LOG_DIR = stack.layout.log_dir
    settings.SLIPWAY_BIND = stack.layout.bind
    settings.SLIPWAY_GATEWAY_PORT = stack.layout.port
    settings.SLIPWAY_GATEWAY_ADMIN_PORT = stack.layout.admin_port
    configured.forget()
    yield stack
    configured.forget()


def tell_workers(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        endpoints = [WorkerEndpoint("127.0.0.1", one.port) for one in stack.workers[target.name]]
        gateway = configured.traffic_backend_of(cluster())
        gateway.set_target(target.name, endpoints, observed_at=datetime.now(UTC))
        eventually(lambda name=target.name, at=gateway: bool(at.ready(name)))


def test_a_row_reaches_the_client_and_survives_the_loss_of_the_files(embedded: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        embedded.run_workers(target)
    row = routes.set_route(
        RouteSpec("chat", STABLE, CANARY, 0, release_header="open"),
        cluster=cluster(),
        fence=Fence(1, 1),
        actor=ANN,
    )
    tell_workers(embedded)
    before = selectors.counts(row)
    reweigh(40, fence=Fence(1, 2), actor=ANN)
    for _ in range(100):
        assert embedded.get("/chat/v1").status == 200
    routed = routed_since(before, selectors.counts(row))
    assert sum(routed.values()) == 100
    low, high = interval_percent(100, 40)
    assert low <= routed[CANARY.name] <= high

    embedded.kill()
    shutil.rmtree(embedded.layout.run_dir)
    embedded.start()
    assert embedded.get("/chat/v1").status == 404
    clock = Clock()
    clock.pass_(LOOK_EVERY)
    worker([GatewayReconciler()], clock).sweep()
    assert Gateway.objects.get().is_healthy
    assert selectors.health().ok
    tell_workers(embedded)
    assert embedded.get("/chat/v1", x_release="canary").version == CANARY.version


def test_the_bootstrap_command_keeps_routes_and_names_what_is_damaged(embedded: EnvoyStack, capsys) -> None:
    set_route(RouteSpec("chat", STABLE, None, 0), fence=Fence(0, 1), actor=ANN)
    assert isinstance(configured.traffic_backend_of(cluster()), EnvoyFiles)
    routes = embedded.layout.routes.read_text()
    call_command("gateway_bootstrap")
    assert "--reject-unknown-dynamic-fields" in capsys.readouterr().out
    assert STABLE.name in routes
    assert STABLE.name in embedded.layout.routes.read_text()
    eventually(lambda: selectors.health().ok)
    embedded.layout.state.write_text("{")
    with pytest.raises(CommandError, match=r"state\.json is damaged"):
        call_command("gateway_bootstrap")
