from datetime import timedelta
from typing import Any

from accounts.states import Right
from alerts.models import AlertSilence, RaisedAlert
from alerts.services.evaluation import begin_alert
from alerts.states import AlertState
from common import clock
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name


def _alert(scene: Scene) -> dict[str, int]:
    row = begin_alert(key=new_name(), check_name="Test", team_id=scene.team.pk, labels={}, severity="warning")
    RaisedAlert.objects.filter(pk=row.pk).update(state=AlertState.FIRING)
    return {"pk": row.pk}


def _group(scene: Scene) -> dict[str, int]:
    return {"pk": RaisedAlert.objects.get(pk=_alert(scene)["pk"]).group_id}


def _silence(scene: Scene) -> dict[str, int]:
    ends_at = clock.now() + timedelta(hours=1)
    row = AlertSilence.objects.create(team=scene.team, labels={"a": "b"}, ends_at=ends_at, reason="Test.")
    return {"pk": row.pk}


def _new(scene: Scene) -> dict[str, Any]:
    ends_at = clock.now() + timedelta(hours=1)
    return {
        "team": scene.team.name,
        "labels": {"service": "x"},
        "ends_at": ends_at.isoformat(),
        "reason": "Test.",
    }


V2 = "alertmanager/api/v2"
WRITE = Right.ALERTS_WRITE


def _matcher(scene: Scene) -> dict[str, Any]:
    silence = _new(scene)
    labels = {"team": scene.team.name, "service": "x"}
    matchers = [
        {"name": name, "value": value, "isRegex": False, "isEqual": True} for name, value in labels.items()
    ]
    now = clock.now().isoformat()
    return {"matchers": matchers, "startsAt": now, "endsAt": silence["ends_at"], "comment": "Test."}


ROUTES = [
    Route("GET", "alerts/", Access.SIGNED_IN, owned=False),
    Route("GET", "alerts/{pk}/", Right.READ, fill=_alert),
    Route("POST", "alerts/{pk}/acknowledge/", WRITE, fill=_alert, body=lambda _: {}),
    Route("POST", "alerts/{pk}/silence/", WRITE, fill=_alert, body=lambda _: {"reason": "Test."}),
    Route("GET", "alert-groups/", Access.SIGNED_IN, owned=False),
    Route("GET", "alert-groups/{pk}/", Right.READ, fill=_group),
    Route("POST", "alert-groups/{pk}/acknowledge/", WRITE, fill=_group, body=lambda _: {}),
    Route("POST", "alert-groups/{pk}/silence/", WRITE, fill=_group, body=lambda _: {"reason": "Test."}),
    Route("GET", "alert-silences/", Access.SIGNED_IN, owned=False),
    Route("POST", "alert-silences/", WRITE, body=_new, status=201, owned=False),
    Route("GET", "alert-silences/{pk}/", Right.READ, fill=_silence),
    Route("DELETE", "alert-silences/{pk}/", WRITE, fill=_silence, status=204),
    Route("GET", "alert-checks/", Access.SIGNED_IN, owned=False),
    Route(
        "PATCH",
        "alert-checks/{check}/",
        Access.ADMINISTRATOR,
        fill=lambda _: {"check": "SlipwayDiskLow"},
        body=lambda _: {"is_on": True},
        owned=False,
    ),
    Route("GET", f"{V2}/alerts/", Access.SIGNED_IN, owned=False),
    Route("GET", f"{V2}/silences/", Access.SIGNED_IN, owned=False),
    Route("GET", f"{V2}/silence/{{pk}}/", Right.READ, fill=_silence),
    Route("DELETE", f"{V2}/silence/{{pk}}/", WRITE, fill=_silence),
    Route("POST", f"{V2}/alerts/", Access.ADMINISTRATOR, body=lambda _: [], owned=False),
    Route("GET", f"{V2}/status/", Access.SIGNED_IN, owned=False),
    Route("POST", f"{V2}/silences/", WRITE, body=_matcher, owned=False),
    Route("POST", "alertmanager/webhook/", Access.ADMINISTRATOR, body=lambda _: {"alerts": []}, owned=False),
]
