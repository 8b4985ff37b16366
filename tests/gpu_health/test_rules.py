"""Rules are changed by administrators, tried on the last 30 days, and set back to what their source says."""

import re

import pytest

from accounts.models import User
from gpu_health import selectors
from gpu_health.models import Finding, RuleChange
from tests import cast
from tests.gpu_health.conftest import Machine

RULE = "gpu-health/rules/default-xid.79/"


@pytest.fixture
def admin(machine: Machine) -> User:
    return cast.person("root", superuser=True)


def test_a_changed_rule_judges_what_comes_and_a_reset_one_as_before(machine: Machine, admin: User) -> None:
    api = cast.api(admin)
    changed = api.put(
        RULE, {"ladder": ["reboot", "replace"], "mode": "record", "reason": "warm reboots help"}
    )
    assert (changed.status_code, changed.json()["is_changed"], changed.json()["mode"]) == (
        200,
        True,
        "record",
    )

    machine.sees(machine.entry("xid.79", "boot/1"))
    assert (Finding.objects.get().outcome, Finding.objects.get().ladder[0]) == ("record", "reboot")

    assert api.delete(f"{RULE}?reason=no").status_code == 204
    machine.sees(machine.entry("xid.79", "boot/2"))
    assert (Finding.objects.get().outcome, Finding.objects.get().ladder[0]) == ("propose", "reboot")


def test_a_change_is_tried_on_what_was_seen_and_changes_nothing(machine: Machine, admin: User) -> None:
    machine.sees(machine.entry("xid.79", "boot/1", seconds_ago=86_400), machine.entry("xid.13", "boot/2"))

    trial = cast.api(admin).post(f"{RULE}preview/", {"mode": "off"}).json()

    assert (trial["days"], trial["readings"], trial["verdicts"]) == (30, 2, 1)
    (difference,) = trial["differences"]
    assert (difference["node"], difference["before"]["outcome"], difference["after"]["outcome"]) == (
        *("box-1", "propose", "none"),
    )
    assert not RuleChange.objects.exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ladder": ["pray"]}, "There is no action pray"),
        ({"ladder": []}, "ladder"),
        ({"conditions": "count=3"}, "needs a window"),
        ({"conditions": "colour=red"}, "There is no condition colour"),
        ({"drain": "gpu"}, "set the drain to node"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(
    machine: Machine, admin: User, given: dict[str, object], words: str
) -> None:
    answer = cast.api(admin).put(RULE, given | {"reason": "x"})

    assert answer.status_code in (400, 422)
    assert words in answer.content.decode()


def test_only_administrators_of_the_installation_change_rules(machine: Machine, operator: User) -> None:
    api = cast.api(operator)

    assert api.get(RULE).json()["says"] == "RESTART_BM; CONTACT_SUPPORT"
    assert api.put(RULE, {"mode": "off", "reason": "x"}).status_code == 403
    assert api.delete(RULE).status_code == 403


def test_rules_and_disagreements_are_listed(machine: Machine, admin: User) -> None:
    api, browser = cast.api(admin), cast.client_of(admin)

    assert len(api.get("gpu-health/rules/").json()["results"]) == len(selectors.rules())
    disputed = [
        row for row in api.get("gpu-health/rules/disagreements/").json()["results"] if row["is_disputed"]
    ]
    assert "xid.63" in {row["fault"] for row in disputed}
    assert "xid.79" not in {row["fault"] for row in disputed}
    assert b"Xid 94" in browser.get("/gpu-health/rules/?q=94").content
    assert b"Xid 63" in browser.get("/gpu-health/disagreements/").content


def test_a_page_of_rules_is_short_and_narrowed_by_severity(machine: Machine, admin: User) -> None:
    def shown(query: str) -> list[str]:
        listed = cast.client_of(admin).get(f"/gpu-health/rules/{query}").content.decode()
        return re.findall(r'href="/gpu-health/rules/([^"?+]+)/"', listed)

    assert len(shown("")) == 50
    assert shown("?sort=fault&page=2")[0] not in shown("")
    fatal = shown("?severity=fatal")
    in_force = {one.rule.name: one.rule.severity for one in selectors.rules_in_force()}
    assert {in_force[name] for name in fatal} == {"fatal"}
    assert (
        "Severity: There is no such severity."
        in cast.client_of(admin).get("/gpu-health/rules/?severity=x").content.decode()
    )


def test_the_page_of_a_rule_previews_saves_and_resets(machine: Machine, admin: User) -> None:
    machine.sees(machine.entry("xid.79", "boot/1"))
    browser = cast.client_of(admin)
    page = "/gpu-health/rules/default-xid.79/"
    form = {
        "enabled": "on",
        "mode": "off",
        "severity": "fatal",
        "conditions": "",
        "ladder": "reboot > power_cycle > replace",
        "drain": "node",
        "verification": "none",
    }

    assert b"propose: reboot" in browser.post(page, form | {"preview": "1"}).content
    unsaid = browser.post(page, form)
    assert (unsaid.status_code, b"Say why" in unsaid.content) == (422, True)
    assert browser.post(page, form | {"reason": "not here"}).status_code == 302
    assert RuleChange.objects.get().changed_by == "root"
    assert browser.post(f"{page}+reset/", {"reason": "back"}).status_code == 302
    assert not RuleChange.objects.exists()
