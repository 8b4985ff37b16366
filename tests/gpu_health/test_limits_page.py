"""The page of limits: what it says, who changes what, and what is refused."""

import pytest

from accounts.models import User
from accounts.states import Role
from gpu_health.healing.limits import HealingLimits
from gpu_health.limits_form import SECTIONS, LimitsForm, length_text
from gpu_health.models import HealingPolicy
from tests import cast
from tests.gpu_health.healing import Ward

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
PAGE = "/gpu-health/limits/"


@pytest.fixture
def root(db: None) -> User:
    return cast.person("root", superuser=True)


def filled(section: str, **changes: object) -> dict[str, object]:
    """Return a group of the page as it is shown, with some fields changed."""
    policy = HealingPolicy.objects.first() or HealingPolicy(revision=0)
    (group,) = (one for one in SECTIONS if one.key == section)
    form = LimitsForm(None, policy=policy, clusters=[], section=group)
    shown = {name: form[name].value() for name in form.fields} | {"section": section}
    return {name: value for name, value in (shown | changes).items() if value is not None}


def test_what_is_reviewed_is_told_and_changes_nothing(root: User) -> None:
    shown = cast.client_of(root).post(PAGE, filled("budgets", slots_percent="5", review="1"))

    text = shown.content.decode()
    assert shown.status_code == 200
    for words in ("slots percent", "10 %", "5 %", "Save changes"):
        assert words in text
    assert not HealingPolicy.objects.exists()


def test_a_group_is_saved_by_itself_and_holds_what_differs_from_the_defaults(root: User) -> None:
    Ward(mode="dry_run", limits={"slots_percent": 5.0, "cooldown_seconds": 7.0})
    browser = cast.client_of(root)
    waits = filled("waits", fault_wait_seconds="xid.79 = 2 min\n", cooldown_seconds="5 min", save="1")

    assert browser.post(PAGE, waits).status_code == 422  # no reason
    groups: list[dict[str, object]] = [
        waits,
        filled("mode", mode="act", dry_clusters=["gpus"], save="1"),
        filled("approvals", approved_actions=["reboot"], save="1"),
        filled("windows", **{"start-0": "22:00", "end-0": "05:00", "days-0": ["0", "4"]}, save="1"),
    ]
    for number, group in enumerate(groups, start=1):
        group |= {"reason": "careful", "revision": number}
        assert browser.post(PAGE, group).status_code == 302

    held = HealingPolicy.objects.get()
    assert (held.mode, held.dry_clusters) == ("act", ["gpus"])
    assert held.limits == {
        "slots_percent": 5.0,
        "fault_wait_seconds": {"xid.79": 120.0},
        "approved_actions": ["reboot"],
    }
    assert held.windows == [{"start": "22:00", "end": "05:00", "days": [0, 4], "time_zone": "UTC"}]
    assert "careful" in browser.get("/audit/").content.decode()
    shown = browser.get(PAGE).content.decode()
    assert "Default: 10\n" in shown or "Default: 10<" in shown
    assert "Default: 5 min" not in shown


def test_a_group_that_is_about_something_else_confirms_no_change_of_approvals(root: User) -> None:
    Ward(mode="dry_run", two_people=True, limits={"approved_actions": ["reset_gpu"]})
    ada = cast.person("ada", superuser=True)
    without = filled("approvals", two_people="on", approved_actions=[], save="1", reason="trust")
    assert cast.client_of(ada).post(PAGE, without).status_code == 302

    assert cast.client_of(root).post(PAGE, filled("rates", save="1", reason="x")).status_code == 302

    held = HealingPolicy.objects.get()
    assert held.waiting_changes == {"reset_gpu": "ada"}
    assert held.figures.approved_actions == ("reset_gpu",)


def test_a_change_of_what_somebody_else_changed_meanwhile_is_refused(root: User) -> None:
    Ward(mode="dry_run", limits={})
    given = filled("budgets", slots_percent="5", save="1", reason="x")
    HealingPolicy.objects.get().change(mode="act")

    answer = cast.client_of(root).post(PAGE, given)

    assert answer.status_code == 422
    assert "changed by someone else" in answer.content.decode()


@pytest.mark.parametrize(
    ("section", "changes", "words"),
    [
        ("budgets", {"slots_percent": "101"}, "less than or equal to 100"),
        ("waits", {"cooldown_seconds": "soon"}, "such as 90 s"),
        ("times", {"watch_seconds": "31 d"}, "30 days at most"),
        ("waits", {"fault_wait_seconds": "xid.79"}, "write a fault"),
        ("windows", {"start-0": "22:00"}, "Give both times"),
        ("windows", {"start-0": "25:00", "end-0": "26:00"}, "times such as 22:00"),
        ("windows", {"start-0": "22:00", "end-0": "05:00", "days-0": []}, "Days of a maintenance window"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_reason(
    root: User, section: str, changes: dict[str, object], words: str
) -> None:
    answer = cast.client_of(root).post(PAGE, filled(section, **changes, save="1", reason="x"))

    assert (answer.status_code, words in answer.content.decode()) == (422, True)
    assert not HealingPolicy.objects.exists()


def test_others_see_the_limits_and_the_refusals_and_change_nothing() -> None:
    ward = Ward(mode="dry_run")
    ward.finding()
    ward.run(lambda: ward.incident.hold == "dry_run")
    browser = cast.client_of(cast.person("olga", serving=Role.OPERATOR))

    text = browser.get(PAGE).content.decode()

    assert "Dry run: healing is switched off for the whole installation." in text
    assert "Review changes" not in text
    assert browser.post(PAGE, filled("rates", save="1", reason="x")).status_code == 422


def test_the_defaults_are_shown_as_people_write_lengths_of_time() -> None:
    told = [length_text(one) for one in (0.0, 90.0, 600.0, 7_200.0, HealingLimits().lemon_seconds, 0.5)]
    assert told == ["0 s", "90 s", "10 min", "2 h", "7 d", "0.5 s"]
