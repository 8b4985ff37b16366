"""The versions that were live at a time, answered by page and REST from what was recorded then."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from accounts.models import User
from common.models import AuditRecord
from gateway.errors import InvalidRoute
from gateway.models import Route
from gateway.services import routes
from releases.models import Approval, Release
from releases.services.release import rollback
from releases.states import ReleaseState as S
from tests.cast import api, person
from tests.releases.browsing import as_person, text_of
from tests.releases.world import Scene

pytestmark = pytest.mark.django_db(transaction=True)
A_MOMENT = timedelta(microseconds=1)


def live(scene: Scene, at: datetime) -> Any:
    reader = User.objects.filter(username="reader").first()
    reader = reader or person("reader", **{scene.team.name: "viewer"})
    answer = api(reader).get(f"services/{scene.name}/live/?at={at:%Y-%m-%dT%H:%M:%S.%fZ}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def shares(found: Any) -> list[tuple[str, int, int]]:
    return [(row["version"], row["percent"], row["release"]) for row in found["versions"]]


def route_set_at(scene: Scene, number: int = -1) -> datetime:
    """When the service's route was set for the nth time."""
    rows = AuditRecord.objects.filter(action="route.set", subject_label=scene.name).order_by("seq")
    return list(rows)[number].at


def test_a_canary_its_promotion_and_a_rollback_are_each_told_of_their_time(waiting: Scene) -> None:
    v1, v2, release = str(waiting.v1), str(waiting.v2), waiting.release
    first, canary = route_set_at(waiting, 0), route_set_at(waiting)
    waiting.approve()
    approved = Approval.objects.get(release=release).at
    waiting.run_until_state(S.PROMOTED)
    promoted = route_set_at(waiting)
    waiting.release = back = rollback(release, actor=waiting.requester, reason="worse")
    waiting.run_until_state(S.PROMOTED)

    assert live(waiting, first - A_MOMENT)["versions"] == []
    before, during = live(waiting, canary - A_MOMENT), live(waiting, canary)
    (stable,) = shares(before)
    assert stable[:2] == (v1, 100)
    assert shares(during) == [(v1, 70, stable[2]), (v2, 30, release.pk)]
    assert during["versions"][0]["since"] == before["versions"][0]["since"] == before["since"]
    assert [row["approvals"] for row in during["versions"]] == [[], []]
    (given,) = live(waiting, approved)["versions"][1]["approvals"]
    assert (given["by"], given["reason"]) == ("bo", "fine")
    after = live(waiting, promoted)
    assert shares(after) == [(v2, 100, release.pk)]
    assert "approved by bo" in after["summary"]
    assert AuditRecord.objects.get(seq=after["versions"][0]["audit_entry"]).at == promoted
    assert shares(live(waiting, route_set_at(waiting))) == [(v1, 100, back.pk)]

    page = text_of(as_person("ada", waiting), f"/services/{waiting.name}/live/?at={canary.isoformat()[:26]}Z")
    assert f"{v1} got 70 % and {v2} 30 %" in page


def test_a_candidate_without_workers_was_not_live_with_its_share(waiting: Scene) -> None:
    waiting.break_candidate()
    waiting.run_until_state(S.ROLLED_BACK)
    withheld = AuditRecord.objects.get(action="route.withhold", subject_label=waiting.name).at
    told = live(waiting, withheld)
    assert datetime.fromisoformat(told["withheld_since"]) == withheld
    first = Release.objects.filter(service=waiting.service).earliest("pk").pk
    assert shares(live(waiting, route_set_at(waiting))) == [(str(waiting.v1), 100, first)]


def test_a_split_that_the_gateway_refused_was_never_live(
    waiting: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise InvalidRoute("no")

    route, before = Route.objects.get(service=waiting.name), live(waiting, route_set_at(waiting))
    monkeypatch.setattr(type(waiting.gateway), "set_route", refuse)
    with pytest.raises(InvalidRoute):
        routes.set_route(
            replace(route.spec, candidate_percent=90),
            cluster=waiting.cluster,
            fence=route.fence,
            actor=waiting.requester,
        )
    refused = AuditRecord.objects.get(action="route.refused").at
    assert live(waiting, refused)["versions"] == before["versions"]


def test_a_time_that_has_not_come_or_is_none_is_refused(scene: Scene) -> None:
    client = as_person("ada", scene)
    eve = api(person("eve", **{scene.team.name: "viewer"}))
    for at in ("2999-01-01T00:00Z", "yesterday"):
        assert client.get(f"/services/{scene.name}/live/?at={at}").status_code == 422
        assert eve.get(f"services/{scene.name}/live/?at={at}").status_code == 400
