"""Rules that an installation adds, and whose rules it starts from."""

import pytest

from accounts.models import User
from common.models import AuditRecord
from gpu_health.models import Finding, RuleChange
from tests import cast
from tests.gpu_health.conftest import Machine

RULES = "gpu-health/rules/"
OWN = {"fault": "xid.79", "severity": "warning", "ladder": ["alert"], "mode": "record"}


@pytest.fixture
def admin(machine: Machine) -> User:
    return cast.person("root", superuser=True)


def test_a_rule_of_ones_own_outranks_those_of_documents(machine: Machine, admin: User) -> None:
    api = cast.api(admin)
    added = api.post(RULES, {**OWN, "reason": "The bus is replaced by hand here."})
    assert (added.status_code, added.json()["name"], added.json()["is_own"]) == (201, "own-xid.79", True)
    assert added.json()["source"] == "root"

    machine.sees(machine.entry("xid.79", "boot/1"))
    assert (Finding.objects.get().rule, Finding.objects.get().outcome) == ("own-xid.79", "record")

    assert api.put(f"{RULES}own-xid.79/", {"mode": "off", "reason": "enough"}).status_code == 200
    machine.sees(machine.entry("xid.79", "boot/2"))
    assert Finding.objects.get(state="open").rule == "default-xid.79"

    assert api.delete(f"{RULES}own-xid.79/?reason=gone").status_code == 204
    assert api.get(f"{RULES}own-xid.79/").status_code == 404
    deeds = AuditRecord.objects.filter(action__startswith="gpu_rule").order_by("pk")
    assert list(deeds.values_list("action", flat=True)) == [
        *("gpu_rule.add", "gpu_rule.change", "gpu_rule.remove")
    ]


def test_a_rule_for_a_fault_that_nobody_has_described_is_tried_before_it_is_added(
    machine: Machine, admin: User
) -> None:
    machine.sees(machine.entry("fan.stopped", "boot/1"), machine.entry("xid.79", "boot/2"))
    wished = {"fault": "fan.stopped", "severity": "fatal", "ladder": ["reboot"], "drain": "node"}
    trial = cast.api(admin).post(f"{RULES}try/", wished).json()
    (difference,) = trial["differences"]
    assert (difference["before"]["outcome"], difference["after"]["outcome"]) == ("alert", "propose")
    assert not RuleChange.objects.exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"fault": "xid.*"}, "a rule has no wildcards"),
        ({"fault": "detector.dcgm", "ladder": ["reboot"]}, "A failing detector never acts"),
        ({"ladder": ["pray"]}, "There is no action pray"),
        ({"ladder": []}, "The ladder is empty"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(
    machine: Machine, admin: User, given: dict[str, object], words: str
) -> None:
    answer = cast.api(admin).post(RULES, {**OWN, **given, "reason": "try"})
    assert answer.status_code == 400
    assert words in answer.content.decode()


def test_another_preset_judges_from_the_next_reading_on_and_only_where_it_was_chosen(
    machine: Machine, admin: User
) -> None:
    api = cast.api(admin)
    machine.sees(machine.entry("xid.13", "boot/1"), machine.entry("xid.79", "boot/2"))
    other = api.post(f"{RULES}presets/preview/", {"preset": "device_plugin"}).json()
    assert {one["fault"]: one["after"]["ladder"] for one in other["differences"]}["xid.79"]

    chosen = {"preset": "eks", "cluster": "gpus", "reason": "as EKS repairs it"}
    rows = api.post(f"{RULES}presets/choose/", chosen).json()["results"]
    assert [row["name"] for row in rows if row["clusters"]] == ["eks"]
    assert [row["name"] for row in rows if row["is_used"]] == ["default"]
    machine.sees(machine.entry("xid.79", "boot/3"), machine.entry("ecc.double_bit", "boot/4"))
    ruled = {one.fault: one.rule for one in Finding.objects.filter(state="open")}
    assert (ruled["xid.79"], ruled["ecc.double_bit"]) == ("eks-xid.79", "default-ecc.double_bit")

    api.post(f"{RULES}presets/choose/", {"preset": "", "cluster": "gpus", "reason": "back"})
    machine.sees(machine.entry("xid.79", "boot/5"))
    assert Finding.objects.get(fault="xid.79", state="open").rule == "default-xid.79"


def test_only_who_operates_everywhere_chooses_presets_and_rules(machine: Machine, operator: User) -> None:
    api = cast.api(operator)
    assert api.post(RULES, {**OWN, "reason": "x"}).status_code == 403
    assert api.post(f"{RULES}presets/choose/", {"preset": "eks", "reason": "x"}).status_code == 403
    api = cast.api(cast.person("root", superuser=True))
    assert api.post(f"{RULES}presets/choose/", {"preset": "amd", "reason": "x"}).status_code == 400
    missing = {"preset": "eks", "cluster": "nowhere", "reason": "x"}
    assert api.post(f"{RULES}presets/choose/", missing).status_code == 400


def test_presets_and_new_rules_have_pages(machine: Machine, admin: User) -> None:
    machine.sees(machine.entry("xid.79", "boot/1"))
    client = cast.client_of(admin)
    told = client.post("/gpu-health/presets/", {"preset": "volcano", "cluster": "", "preview": "1"})
    assert "What it would have done over the last 30 days" in told.content.decode()
    saved = client.post("/gpu-health/presets/", {"preset": "gpud", "cluster": "", "reason": "as gpud says"})
    assert saved.status_code in (204, 302)
    assert "Preset: gpud" in client.get("/gpu-health/rules/").content.decode()

    form = {"fault": "fan.stopped", "mode": "record", "severity": "warning", "ladder": "alert"}
    form |= {"drain": "none", "verification": "none", "enabled": "on"}
    shown = client.post("/gpu-health/rules/+new/", {**form, "preview": "1"})
    assert shown.status_code == 200
    assert client.post("/gpu-health/rules/+new/", form).status_code == 422
    client.post("/gpu-health/rules/+new/", {**form, "reason": "fans fail here"})
    assert "fan.stopped" in client.get("/gpu-health/rules/own-fan.stopped/").content.decode()
