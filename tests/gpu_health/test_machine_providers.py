"""A machine that only its provider can restart is restarted once, whatever becomes of the answers."""

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from common.webhooks.signing import sign
from gpu_health.actions import provided
from gpu_health.providers.base import Deed, DeedState, DeedStatus, ProviderAway, ProviderMachine
from gpu_health.providers.command import CommandProvider
from gpu_health.providers.configured import machine_provider
from tests.gpu_health.healing import LIMITS, Ward

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MACHINE = ProviderMachine(name="n", uid="u", provider_id="i-1", address="", cluster="c", provider="aws")


class Provider:
    """Restarts the machine of a ward; an answer may be lost, or it may not know."""

    def __init__(self, ward: Ward, *, loses: int = 0, knows: bool = True) -> None:
        self.ward, self.loses, self.knows = ward, loses, knows
        self.deeds: list[str] = []

    def order(self, deed: Deed, machine: ProviderMachine, op_key: str, reason: str) -> DeedStatus:
        self.deeds.append(f"{deed} {op_key}")
        if self.knows:
            self.ward.operations.reboots += 1
        if self.loses:
            self.loses -= 1
            raise ProviderAway("the answer was lost")
        return DeedStatus(DeedState.RUNNING)

    def status(self, deed: Deed, machine: ProviderMachine, op_key: str) -> DeedStatus:
        if not self.knows:
            return DeedStatus(DeedState.UNKNOWN)
        return DeedStatus(DeedState.RUNNING if self.deeds else DeedState.NEVER)


def given(monkeypatch: pytest.MonkeyPatch, **provider: object) -> tuple[Ward, Provider]:
    ward = Ward(limits=LIMITS | {"approved_actions": []})
    one = Provider(ward, **provider)  # type: ignore[arg-type]
    monkeypatch.setattr(provided, "machine_provider", lambda: one)
    ward.finding(ladder=["power_cycle", "replace"])
    return ward, one


@pytest.mark.django_db
def test_a_lost_answer_is_asked_after_and_the_machine_cycled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ward, provider = given(monkeypatch, loses=1)

    ward.run("closed")

    assert len(provider.deeds) == 1


@pytest.mark.django_db
def test_what_nobody_can_see_is_asked_of_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    ward, provider = given(monkeypatch, loses=1, knows=False)

    ward.run(lambda: ward.incident.stuck_at is not None)

    assert len(provider.deeds) == 1
    assert "cannot be seen whether it took effect" in ward.incident.last_error


@pytest.mark.django_db
def test_without_a_provider_the_ladder_ends_with_a_person() -> None:
    ward = Ward(limits=LIMITS | {"approved_actions": []})
    ward.finding(ladder=["power_cycle", "replace"])

    incident = ward.run("needs_person")

    told = "".join(incident.timeline.values_list("words", flat=True))
    assert "No provider of machines is configured" in told


def test_a_program_is_told_the_machine_and_answers_in_json(tmp_path: Path) -> None:
    program = tmp_path / "cloud"
    program.write_text(
        "import json, sys\n"
        "machine = json.load(sys.stdin)\n"
        "words = ' '.join([*sys.argv[1:], machine['provider_id']])\n"
        "print(json.dumps({'state': 'running', 'words': words}))\n"
    )
    provider = CommandProvider((sys.executable, str(program)))

    assert provider.order(Deed.POWER_CYCLE, MACHINE, "k1", "xid").words == "power_cycle k1 i-1"
    assert provider.status(Deed.POWER_CYCLE, MACHINE, "k1").words == "status k1 power_cycle i-1"
    with pytest.raises(ProviderAway, match="ended with 2"):
        CommandProvider((sys.executable, str(tmp_path / "missing"))).status(Deed.REBOOT, MACHINE, "k1")


class Cloud:
    """A provider's server on this machine: keeps what it is told, and to one op_key one deed."""

    def __init__(self, ward: Ward | None = None) -> None:
        self.ward = ward
        self.heard: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.deeds: dict[str, str] = {}
        self.status = 200
        cloud = self

        class ProviderHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = json.dumps(
                    cloud.take({name.lower(): said for name, said in self.headers.items()}, body)
                ).encode()
                self.send_response(cloud.status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), ProviderHandler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/machines"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, headers: dict[str, str], body: bytes) -> dict[str, str]:
        told = json.loads(body)
        self.heard.append((headers, told))
        key, at = headers["webhook-id"], int(headers["webhook-timestamp"])
        if headers["webhook-signature"] != sign(SECRET, message_id=key, timestamp=at, body=body):
            return {"state": "failed", "words": "The signature is not ours."}
        if told["action"] == "status":
            return {"state": "running" if told["op_key"] in self.deeds else "never"}
        if told["op_key"] not in self.deeds:
            self.deeds[told["op_key"]] = told["action"]
            if self.ward is not None:
                self.ward.operations.reboots += 1
        return {"state": "running", "words": "It is switched off and on."}


@pytest.fixture
def cloud(settings: Any) -> Iterator[Cloud]:
    one = Cloud()
    settings.SLIPWAY_MACHINE_PROVIDER_COMMAND = ()
    settings.SLIPWAY_MACHINE_PROVIDER_URL = one.url
    settings.SLIPWAY_MACHINE_PROVIDER_SECRET = SECRET
    settings.SLIPWAY_WEBHOOK_ALLOWED_HOSTS = ["127.0.0.0/8"]
    yield one
    one.server.shutdown()
    one.server.server_close()


@pytest.mark.django_db
def test_a_server_of_the_provider_cycles_the_machine_once_and_it_returns(cloud: Cloud) -> None:
    ward = cloud.ward = Ward(limits=LIMITS | {"approved_actions": []})
    ward.finding(ladder=["power_cycle", "replace"])

    ward.run("closed")

    assert list(cloud.deeds.values()) == ["power_cycle"]
    headers, told = cloud.heard[0]
    assert told["machine"]["uid"] == ward.node.uid
    assert headers["webhook-id"] == told["op_key"]
    assert headers["idempotency-key"] == f"power_cycle:{told['op_key']}"
    assert not ward.operations.cordoned


def test_a_server_that_fails_is_one_that_may_have_heard(cloud: Cloud) -> None:
    provider = machine_provider()
    assert provider is not None
    assert provider.order(Deed.REPLACE, MACHINE, "k1", "xid").state is DeedState.RUNNING
    assert provider.status(Deed.REPLACE, MACHINE, "k2").state is DeedState.NEVER
    cloud.status = 503

    with pytest.raises(ProviderAway, match="HTTP 503"):
        provider.status(Deed.REPLACE, MACHINE, "k1")


@pytest.mark.django_db
def test_a_program_of_the_installation_cycles_the_machine_once(tmp_path: Path, settings: Any) -> None:
    ward = Ward(limits=LIMITS | {"approved_actions": []})
    said = tmp_path / "said"
    program = tmp_path / "cloud"
    program.write_text(
        "import json, pathlib, sys\n"
        "json.load(sys.stdin)\n"
        f"said = pathlib.Path({str(said)!r})\n"
        "asked = sys.argv[1] == 'status'\n"
        "said.open('a').write('' if asked else sys.argv[2] + ' ')\n"
        "print(json.dumps({'state': 'running' if sys.argv[2] in said.read_text() else 'never'}))\n"
    )
    settings.SLIPWAY_MACHINE_PROVIDER_COMMAND = (sys.executable, str(program))
    ward.finding(ladder=["power_cycle", "replace"])
    ward.run("acting")
    while not said.exists() or not said.read_text():
        ward.kernel.sweep()
        ward.clock.pass_(timedelta(seconds=1))
    ward.operations.reboots += 1

    ward.run("closed")

    assert len(said.read_text().split()) == 1
