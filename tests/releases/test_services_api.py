"""Services over REST."""

import pytest
from django.test import Client

from common.models import AuditRecord
from gateway.models import Route, opened_key
from gateway.services import routes
from tests.cast import api, person
from tests.releases.world import Scene

pytestmark = pytest.mark.django_db


def test_a_service_belongs_to_the_team_of_its_model_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Scene(monkeypatch).v2.model
    eve = api(person("eve", **{model.team.name: "developer", "speech": "developer"}))
    body = {"model": model.name, "version": "v2"}
    assert eve.post("services/", {"name": "one", **body}).json()["team"] == model.team.name
    assert eve.post("services/", {"name": "two", "team": "speech", **body}).json()["team"] == "speech"


def test_who_may_choose_the_version_by_a_header_is_set_while_a_release_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch)
    eve = api(person("eve", **{scene.team.name: "developer"}))
    service = f"services/{scene.name}/"
    assert eve.get(service).json()["release_header"] == "off"
    release = scene.start()
    scene.run_until(lambda: Route.objects.get(service=scene.name).candidate_percent > 0)
    release.refresh_from_db()

    def sent(key: str = "") -> set[str]:
        for route in Route.objects.filter(applied_at=None):
            routes.reapply(route)
        return set(scene.gateway.send(scene.name, 50, release="canary", key=key))

    assert sent() == {release.stable_deployment, release.candidate_deployment}
    issued = eve.post(f"{service}release-header/", {"release_header": "secret"})
    assert issued.headers["Cache-Control"] == "no-store"
    key = issued.json()["release_key"]
    assert sent(key) == {release.candidate_deployment}
    assert sent("guessed") == {release.stable_deployment, release.candidate_deployment}
    assert key not in eve.get(service).content.decode()
    second = eve.post(f"{service}release-header/", {"release_header": "secret"}).json()["release_key"]
    assert sent(key) != {release.candidate_deployment}
    assert sent(second) == {release.candidate_deployment}
    boss = api(person("cleo", **{scene.team.name: "admin"}))
    opened = boss.post(f"{service}release-header/", {"release_header": "open", "reason": "A demonstration."})
    assert opened.json() == {"release_header": "open", "release_key": None}
    assert sent() == {release.candidate_deployment}
    record = AuditRecord.objects.filter(action="service.release_header").latest("seq")
    assert (record.reason, record.detail) == ("A demonstration.", {"from": "secret", "to": "open"})


def test_only_who_may_change_a_service_lets_clients_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    sam = api(person("sam", **{scene.team.name: "viewer"}))
    path = f"services/{scene.name}/release-header/"
    assert sam.post(path, {"release_header": "open"}).status_code == 403
    eve = api(person("eve", **{scene.team.name: "developer"}))
    assert eve.post(path, {"release_header": "ajar"}).status_code == 400
    scene.service.refresh_from_db()
    assert scene.service.release_header == "off"


def test_the_settings_page_shows_a_new_key_once(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    scene = Scene(monkeypatch)
    client.force_login(person("eve", **{scene.team.name: "developer"}))
    shown = client.get(f"/services/{scene.name}/settings/").content.decode()
    assert f'action="/services/{scene.name}/release-header/"' in shown
    issued = client.post(f"/services/{scene.name}/release-header/", {"release_header": "secret"})
    scene.service.refresh_from_db()
    key = opened_key(scene.service.sealed_release_key)
    assert f'id="secret">{key}<' in issued.content.decode()
    for path in ("", "settings/"):
        assert key not in client.get(f"/services/{scene.name}/{path}").content.decode()
