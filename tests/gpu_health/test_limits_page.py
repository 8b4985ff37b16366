"""The page of limits: what it says, who changes what, and what is refused."""

import pytest

from accounts.models import User
from accounts.states import Role
from gpu_health.healing.limits import Limits
from gpu_health.limits_form import LimitsForm, length_text
from gpu_health.models import HealingPolicy
from tests import cast
from tests.gpu_health.healing import Ward

pytestmark = pytest.mark.django_db
PAGE = "/gpu-health/limits/"


@pytest.fixture
def root(db: None) -> User:
    return cast.person("root", superuser=True)


def filled(**changes: object) -> dict[str, object]:
    """The form as the page shows it, with some fields changed."""
    form = LimitsForm(None, policy=HealingPolicy.objects.first() or HealingPolicy(revision=0), clusters=[])
    shown = {name: form[name].value() for name in form.fields}
    return {name: value for name, value in (shown | changes).items() if value is not None}


def test_what_is_reviewed_is_told_and_changes_nothing(root: User) -> None:
    shown = cast.client_of(root).post(PAGE, filled(slots_percent="5", cooldown_seconds="2 h", review="1"))

    text = shown.content.decode()
    assert shown.status_code == 200
    for words in ("slots percent", "10 %", "5 %", "cooldown seconds", "5 min", "2 h", "Save changes"):
        assert words in text
    assert not HealingPolicy.objects.exists()


def test_a_saved_change_holds_what_differs_from_the_defaults(root: User) -> None:
    Ward(mode="dry_run", limits={})
    given: dict[str, object] = {
        "slots_percent": "5",
        "mode": "act",
        "dry_clusters": ["gpus"],
        "approved_actions": ["reboot"],
    }
    given |= {"fault_wait_seconds": "xid.79 = 2 min\n", "start-0": "22:00", "end-0": "05:00"}
    given |= {"days-0": ["0", "4"], "time_zone-0": "Europe/Zurich"}
    browser = cast.client_of(root)

    assert browser.post(PAGE, filled(**given, save="1")).status_code == 422  # no reason
    assert browser.post(PAGE, filled(**given, save="1", reason="careful")).status_code == 302

    held = HealingPolicy.objects.get()
    assert (held.mode, held.dry_clusters) == ("act", ["gpus"])
    assert held.limits == {
        "slots_percent": 5.0,
        "fault_wait_seconds": {"xid.79": 120.0},
        "approved_actions": ["reboot"],
    }
    assert held.windows == [{"start": "22:00", "end": "05:00", "days": [0, 4], "time_zone": "Europe/Zurich"}]
    assert "careful" in browser.get("/audit/").content.decode()


def test_a_change_of_what_somebody_else_changed_meanwhile_is_refused(root: User) -> None:
    Ward(mode="dry_run", limits={})
    given = filled(slots_percent="5", save="1", reason="x")
    HealingPolicy.objects.get().change(mode="act")

    answer = cast.client_of(root).post(PAGE, given)

    assert answer.status_code == 422
    assert "changed by someone else" in answer.content.decode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"slots_percent": "101"}, "less than or equal to 100"),
        ({"cooldown_seconds": "soon"}, "such as 90 s"),
        ({"watch_seconds": "31 d"}, "30 days at most"),
        ({"fault_wait_seconds": "xid.79"}, "write a fault"),
        ({"start-0": "22:00"}, "Give both times"),
        ({"start-0": "25:00", "end-0": "26:00"}, "times such as 22:00"),
        ({"start-0": "22:00", "end-0": "05:00", "days-0": []}, "Days of a maintenance window"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_reason(
    root: User, changes: dict[str, object], words: str
) -> None:
    answer = cast.client_of(root).post(PAGE, filled(**changes, save="1", reason="x"))

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
    assert browser.post(PAGE, filled(save="1", reason="x")).status_code == 422


def test_the_defaults_are_shown_as_people_write_lengths_of_time() -> None:
    told = [length_text(one) for one in (0.0, 90.0, 600.0, 7_200.0, Limits().lemon_seconds, 0.5)]
    assert told == ["0 s", "90 s", "10 min", "2 h", "7 d", "0.5 s"]
