"""GPU health on Home, live, and as a zip for the vendor of a machine."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from accounts.actors import of_user
from accounts.models import User
from accounts.states import Role
from common.errors import NotAllowed
from common.live.board import PUBLIC
from gpu_health.consumers import GpuHealthTopic
from gpu_health.health_now import live_values
from tests import cast
from tests.gpu_health.conftest import Machine
from tests.gpu_health.healing import Ward
from tests.slipway.conftest import Terminal
from tests.slipway.conftest import terminal as terminal

pytestmark = pytest.mark.django_db


def test_live_values_belong_to_the_team_of_their_machine(machine: Machine) -> None:
    machine.sees(machine.entry("xid.79", "boot/1"))

    parts = live_values()

    own = parts[machine.team.pk]
    assert (own["cluster.gpus.healthy"], own["cluster.gpus.suspect"]) == (0, 1)
    assert [value for path, value in own.items() if path.endswith(".state")] == ["proposed"]
    assert parts[PUBLIC] == {"healing.mode": "dry_run", "healing.stopped": False, "healing.breakers_open": 0}
    json.dumps(parts)


def test_only_who_may_read_somewhere_follows_it(operator: User, machine: Machine) -> None:
    topic = GpuHealthTopic()
    assert topic.audience(of_user(operator), "") == {PUBLIC, machine.team.pk}
    with pytest.raises(NotAllowed):
        topic.audience(of_user(cast.person("nobody")), "")


def test_home_shows_machines_incidents_and_the_kill_switch(machine: Machine, operator: User) -> None:
    machine.sees(machine.entry("xid.79", "boot/1"))
    browser = cast.client_of(operator)
    browser.post("/gpu-health/+stop/", {"reason": "storm"})

    card = browser.get("/", headers={"HX-Request": "true", "HX-Target": "gpu-health"}).content.decode()

    for words in ("Kill switch on", "Suspect", "box-1", "Xid 79", "Proposed", "1 open"):
        assert words in card
    other = cast.client_of(cast.person("sam", vision=Role.ADMIN)).get("/").content.decode()
    assert "box-1" not in other


def test_a_zip_for_the_vendor_holds_serials_logs_and_what_was_done(
    tmp_path: Path, terminal: Terminal
) -> None:
    ward = Ward()
    ward.finding()
    incident = ward.run("closed")
    olga = cast.person("olga", serving=Role.OPERATOR)

    answer = cast.client_of(olga).get(f"/gpu-health/incidents/{incident.pk}/rma.zip")

    assert f"rma-fake-node-incident-{incident.pk}.zip" in answer["Content-Disposition"]
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    files = {name.partition("/")[2]: archive.read(name).decode() for name in archive.namelist()}
    assert {"README.txt", "incident.json", "gpus.json", "kernel.log", "timeline.json"} <= files.keys()
    assert json.loads(files["incident.json"])["incident"]["fault"] == "xid.119"
    assert "The check has passed on GPU-fake" in files["timeline.json"]
    assert json.loads(files["findings.json"])[0]["raw"].startswith("NVRM: Xid")

    terminal.token = cast.token_of(olga)
    said = terminal("gpu", "incident", "rma", incident.pk, "--to", tmp_path / "it.zip")
    assert said.status == 0
    assert zipfile.is_zipfile(tmp_path / "it.zip")
    stranger = cast.api(cast.person("sam", vision=Role.ADMIN))
    assert stranger.get(f"gpu-health/incidents/{incident.pk}/rma/").status_code == 404
