"""What became of a promoted release: superseded by a later one, or undone by one that rolled it back."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from releases.models import Release
from releases.services.release import abort, rollback
from releases.states import ReleaseState as S
from releases.webhook_events import release_payload
from tests.cast import api, person
from tests.releases.browsing import as_person, queries_of, text_of
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """The service's first version, version 2 after it, and the release that took version 2 back."""
    return Scene(monkeypatch, then=until_it_is_undone)


def until_it_is_undone(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)
    scene.release = rollback(scene.release, actor=scene.requester, reason="users complain")
    scene.run_until_state(S.PROMOTED)
    scene.run_for(20)


def releases_of(scene: Scene) -> list[Release]:
    return list(Release.objects.filter(service=scene.service).order_by("pk"))


def test_a_promoted_release_names_the_one_that_followed_and_the_one_that_took_it_back(undone: Scene) -> None:
    first, second, third = releases_of(undone)
    reader = api(person("reader", speech="viewer"))
    shown = {row["id"]: row for row in reader.get("releases/").json()["results"]}
    followed = {pk: (row["superseded_by"], row["undone_by"]) for pk, row in shown.items()}
    assert followed == {
        first.pk: (second.pk, None),
        second.pk: (third.pk, third.pk),
        third.pk: (None, None),
    }
    assert reader.get(f"releases/{second.pk}/").json()["undone_by"] == third.pk
    told = release_payload({"release_id": second.pk})
    assert told is not None
    assert told.data["release"]["undone_by"] == third.pk


def test_a_release_that_was_not_promoted_is_not_superseded(undone: Scene) -> None:
    undone.start()
    abort(undone.release, actor=undone.requester, reason="no")
    undone.run_until_state(S.ABORTED)
    aborted = undone.release
    undone.start()
    undone.run_until_state(S.WAITING_APPROVAL)
    undone.approve()
    undone.run_until_state(S.PROMOTED)
    assert Release.objects.get(pk=aborted.pk).superseded_by_id is None


def test_the_pages_say_what_became_of_it_with_a_link(undone: Scene) -> None:
    first, second, third = releases_of(undone)
    viewer = as_person("ada", undone)
    body = text_of(viewer, f"/releases/{second.pk}/")
    assert f'Promoted, then rolled back by <a href="/releases/{third.pk}/">#{third.pk}</a>' in body
    assert "serves all traffic" not in body.split('id="release-history"')[0]
    assert f'Superseded by <a href="/releases/{second.pk}/">' in text_of(viewer, f"/releases/{first.pk}/")
    for path in ("/releases/", f"/services/{undone.name}/"):
        body = text_of(viewer, path)
        assert f'by <a href="/releases/{third.pk}/">#{third.pk}</a>' in body
        assert body.count("Superseded") == 1
        assert f"{second.version} serves all traffic" not in body
        assert f"{second.version} was promoted, and served all traffic" in body
    assert "by <a" not in text_of(viewer, f"/releases/{third.pk}/")


def test_lists_cost_no_query_more_for_each_release_that_was_followed(undone: Scene) -> None:
    viewer = as_person("ada", undone)
    paths = ("/releases/", f"/services/{undone.name}/")
    few = [queries_of(viewer, path) for path in paths]
    rest = _rest_queries(undone)
    undone.start()
    undone.run_until_state(S.WAITING_APPROVAL)
    undone.approve()
    undone.run_until_state(S.PROMOTED)
    undone.run_for(20)
    assert [queries_of(viewer, path) for path in paths] == few
    assert _rest_queries(undone) == rest


def _rest_queries(scene: Scene) -> int:
    reader: Any = api(scene.release.requested_by)
    reader.get("releases/")
    with CaptureQueriesContext(connection) as captured:
        assert reader.get("releases/").status_code == 200
    return len(captured)


def test_the_page_of_a_version_tells_of_its_releases(undone: Scene) -> None:
    first, second, third = releases_of(undone)
    body = text_of(as_person("ada", undone), f"/models/{undone.v2.model.name}/v2/")
    history = body.split('aria-label="History"')[1]
    assert f'<a href="/releases/{second.pk}/">#{second.pk} to {undone.name}</a>' in history
    assert f"rolled back by #{third.pk}" in history
    assert f"/releases/{third.pk}/" not in history
    body = text_of(as_person("ada", undone), f"/models/{undone.v1.model.name}/v1/")
    history = body.split('aria-label="History"')[1]
    assert f"/releases/{first.pk}/" in history
    assert f"/releases/{third.pk}/" in history


def test_the_page_of_a_version_hides_releases_of_teams_that_one_is_not_in(undone: Scene) -> None:
    _, second, _ = releases_of(undone)
    Release.objects.filter(pk=second.pk).update(team=person("eve", vision="viewer").memberships.get().team)
    body = text_of(as_person("ada", undone), f"/models/{undone.v2.model.name}/v2/")
    assert f"/releases/{second.pk}/" not in body
