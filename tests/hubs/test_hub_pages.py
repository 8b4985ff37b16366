"""The pages about sources on hubs and their syncs, as a signed-in person gets them."""

import pytest
from django.test import Client
from django.utils import timezone

from hubs.models import HubSource, HubSync
from hubs.services import syncs
from models_registry.models import Version
from models_registry.services import catalogue
from tests import cast
from tests.models_registry import builders as b
from tests.models_registry.conftest import REPO
from tests.models_registry.pages import PART, text_of


def test_a_repository_is_followed_and_its_first_sync_shown_until_it_is_done(browser, hubs, model) -> None:
    hubs.server.tokens[REPO] = {"hf_secret"}
    assert "No repository is followed" in text_of(browser.get("/models/tiny/+hub/"))
    assert hubs.server.url in text_of(browser.get("/models/tiny/+hub/+new/"))
    given = {"endpoint": hubs.server.url, "repo_id": REPO, "revision": "main", "token": "hf_secret",
             "every": "", "ignore_patterns": "*.bin\n\n*.msgpack"}  # fmt: skip
    answer = browser.post("/models/tiny/+hub/+new/", given)
    assert answer["Location"] == "/models/tiny/+hub/", text_of(answer)
    source = HubSource.objects.get()
    assert (source.ignore_patterns, source.every_seconds, source.has_token) == (
        ["*.bin", "*.msgpack"], None, True,
    )  # fmt: skip
    moving = text_of(browser.get("/models/tiny/+hub/", headers={**PART, "HX-Target": "listing"}))
    assert "every 1s" in moving
    assert "Contacting hub" in moving
    hubs.settle()
    rest = text_of(browser.get("/models/tiny/+hub/"))
    assert "every 1s" not in rest
    assert 'href="/models/tiny/v1/"' in rest
    for page in (rest, text_of(browser.get(f"/models/tiny/+hub/{source.pk}/"))):
        assert "hf_secret" not in page
    version = text_of(browser.get("/models/tiny/v1/"))
    assert HubSync.objects.get().commit in version
    assert f'href="{hubs.server.url}/{REPO}"' in version


def test_what_is_wrong_with_a_source_is_told_at_its_field(browser, hubs, model) -> None:
    given = {"endpoint": hubs.server.url, "repo_id": "../etc", "revision": "main"}
    bad = browser.post("/models/tiny/+hub/+new/", given)
    assert bad.status_code == 422
    assert 'id="id_repo_id_error"' in text_of(bad)
    elsewhere = browser.post("/models/tiny/+hub/+new/", {**given, "endpoint": "http://169.254.169.254"})
    assert 'id="id_endpoint_error"' in text_of(elsewhere)
    assert not HubSource.objects.exists()


def test_a_source_is_changed_and_an_empty_token_keeps_the_stored_one(browser, hubs, actor, source) -> None:
    syncs.change_hub_source(actor=actor, source=source, token="hf_ok")
    url = f"/models/tiny/+hub/{source.pk}/"
    given = {"revision": "main", "every": "3600", "token": "", "expected": source.revision}
    assert browser.post(url, given).status_code == 302
    source.refresh_from_db()
    assert (source.every_seconds, source.has_token) == (3600, True)
    late = browser.post(url, given)
    assert late.status_code == 422
    assert "changed by someone else" in text_of(late)
    given |= {"expected": source.revision, "forget_token": "on"}
    assert browser.post(url, given).status_code == 302
    source.refresh_from_db()
    assert not source.has_token
    assert "every hour" in text_of(browser.get("/models/tiny/+hub/"))


def test_a_service_that_gets_new_versions_is_chosen_and_shown(browser, hubs, actor, source, chat) -> None:
    url = f"/models/tiny/+hub/{source.pk}/"
    assert "Release it to chat" in text_of(browser.get(url))
    given = {"revision": "main", "every": "", "expected": source.revision}
    assert browser.post(url, {**given, "release_to": "elsewhere"}).status_code == 422
    assert browser.post(url, {**given, "release_to": "chat", "release_plan": "none"}).status_code == 422
    assert browser.post(url, {**given, "release_to": "chat", "release_plan": "canary"}).status_code == 302
    source = HubSource.objects.get()
    assert (source.release_to, source.release_plan, source.released_by.username) == ("chat", "canary", "ada")
    assert "releases to chat by plan canary" in text_of(browser.get("/models/tiny/+hub/"))
    chat.is_busy = True
    hubs.synced(source, actor)
    assert "It was not released to chat" in text_of(browser.get("/models/tiny/+hub/"))


def test_a_source_is_deleted_with_a_reason_once_nothing_runs(browser, hubs, actor, source) -> None:
    url = f"/models/tiny/+hub/{source.pk}/+delete/"
    sync = syncs.start_sync(actor=actor, source=source)
    assert "Say why." in text_of(browser.post(url, {"reason": ""}, headers=PART))
    assert "is being synced. Cancel that first." in text_of(
        browser.post(url, {"reason": "moved"}, headers=PART)
    )
    syncs.SYNCS.ask("cancel", actor=actor, transfer=sync)
    assert browser.post(url, {"reason": "moved"}, headers=PART)["HX-Redirect"] == "/models/tiny/+hub/"
    assert browser.get(f"/models/tiny/+hub/{source.pk}/").status_code == 404
    page = text_of(browser.get(f"/models/tiny/+syncs/{sync.pk}/"))
    assert "no longer followed" in page
    assert "Retry" not in page


def test_a_running_sync_shows_its_progress_and_is_paused_resumed_and_cancelled(browser, hubs, source) -> None:
    assert browser.post(f"/models/tiny/+hub/{source.pk}/+sync/", headers=PART).status_code == 204
    twice = browser.post(f"/models/tiny/+hub/{source.pk}/+sync/", headers=PART)
    assert "is being synced already" in text_of(twice)
    hubs.worker(start=lambda job: None).sweep()
    Version.objects.update(
        bytes_done=500_000_000, bytes_total=2_000_000_000, bytes_per_second=118_000_000, files_total=4
    )
    url = f"/models/tiny/+syncs/{HubSync.objects.get().pk}/"
    moving = text_of(browser.get(url, headers={**PART, "HX-Target": "now"}))
    assert "every 1s" in moving
    assert "500\u00a0MB of 2.00\u00a0GB" in moving
    assert browser.post(f"{url}+pause/", {"reason": "the line is needed"}, headers=PART).status_code == 204
    paused = text_of(browser.get(url))
    assert "every 1s" not in paused
    assert "By ada. the line is needed" in paused
    hubs.sweep()
    assert "Paused" in text_of(browser.get("/models/tiny/v1/"))
    assert browser.post(f"{url}+resume/", {}, headers=PART).status_code == 204
    assert browser.post(f"{url}+cancel/", {"reason": "not now"}, headers=PART).status_code == 204
    assert "Received files were removed." in text_of(browser.get(url))
    assert browser.post(f"{url}+retry/", {}, headers=PART).status_code == 204
    refused = browser.post(f"{url}+retry/", {}, headers=PART)
    assert (refused.status_code, "this cannot be done now" in text_of(refused)) == (422, True)
    assert browser.post(f"{url}+explode/", {}, headers=PART).status_code == 404


@pytest.mark.parametrize(
    ("prepare", "title", "words"),
    [
        (lambda server: server.gated.add(REPO), "The repository is gated.", "is gated"),
        (
            lambda server: server.tokens.update({REPO: {"hf_ok"}}),
            "or the token gives no access to it",
            "needs a token",
        ),
        (
            lambda server: server.repository(REPO).commit(b.model_files() | {"x.pkl": b"\x80\x04."}),
            "Its files must not enter the registry.",
            "x.pkl",
        ),
    ],
)
def test_what_stands_in_the_way_is_told_in_words_on_both_pages(
    browser, hubs, actor, source, prepare, title, words
) -> None:
    prepare(hubs.server)
    sync = hubs.synced(source, actor)
    page = text_of(browser.get(f"/models/tiny/+syncs/{sync.pk}/"))
    assert title in page
    assert words in page
    assert "Retry" in page
    assert words in text_of(browser.get("/models/tiny/+hub/"))


def test_a_stuck_sync_says_why_and_stops_asking(browser, hubs, actor, source) -> None:
    sync = syncs.start_sync(actor=actor, source=source)
    HubSync.objects.update(stuck_at=timezone.now(), last_error="OSError: the disk is gone")
    page = text_of(browser.get(f"/models/tiny/+syncs/{sync.pk}/"))
    assert "the disk is gone" in page
    assert "every 1s" not in page


def test_a_stuck_schedule_says_why_and_a_sync_by_hand_wakes_it(browser, hubs, source) -> None:
    HubSource.objects.update(every_seconds=3600, stuck_at=timezone.now(), last_error="ValueError: no clock")
    assert "Stuck: ValueError: no clock" in text_of(browser.get("/models/tiny/+hub/"))
    assert browser.post(f"/models/tiny/+hub/{source.pk}/+sync/", headers=PART).status_code == 204
    assert HubSource.objects.get().stuck_at is None


def test_a_viewer_is_offered_no_change_and_may_make_none(hubs, actor, source) -> None:
    client = Client()
    client.force_login(cast.person("vic", vision="viewer"))
    page = text_of(client.get("/models/tiny/+hub/"))
    assert REPO in page
    assert "Sync now" not in page
    answer = client.post(f"/models/tiny/+hub/{source.pk}/+sync/", headers=PART)
    assert answer.status_code == 422
    assert not HubSync.objects.exists()


def test_another_teams_sources_are_not_there(hubs, actor, source) -> None:
    sync = syncs.start_sync(actor=actor, source=source)
    stranger = Client()
    stranger.force_login(cast.person("eve", other="admin"))
    for path in ("+hub/", "+hub/+new/", f"+hub/{source.pk}/", f"+syncs/{sync.pk}/"):
        assert stranger.get(f"/models/tiny/{path}").status_code == 404
    own = catalogue.create_model(actor=actor, team=cast.team("vision"), name="own")
    browser = Client()
    browser.force_login(cast.person("bea", vision="developer"))
    assert browser.get(f"/models/{own.name}/+hub/{source.pk}/").status_code == 404
    assert browser.get(f"/models/{own.name}/+syncs/{sync.pk}/").status_code == 404
