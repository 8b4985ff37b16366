"""The settings pages of webhooks: secrets shown once, tests, replays, history, and reasons."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import WebhookDelivery, WebhookEndpoint
from accounts.services.webhooks import create_webhook, send_test
from common.models import AuditRecord
from tests import cast
from tests.cast import SYSTEM, client_of

pytestmark = pytest.mark.django_db
PART = {"HX-Request": "true"}
URL = "https://hooks.example.org/secret-path"


def text_of(answer) -> str:
    return answer.content.decode()


@pytest.fixture
def ada() -> Client:
    """The admin of one team."""
    return client_of(cast.person("ada", vision="admin"))


@pytest.fixture
def endpoint(ada) -> WebhookEndpoint:
    return create_webhook(actor=SYSTEM, url=URL, team=cast.team("vision")).endpoint


def tried(endpoint: WebhookEndpoint, **fields) -> WebhookDelivery:
    delivery = send_test(actor=SYSTEM, endpoint=endpoint)
    entry = {
        "at": timezone.now().isoformat(),
        "status": 500,
        "milliseconds": 31,
        "answer": "<b>no</b>",
        "error": "",
    }
    WebhookDelivery.objects.filter(pk=delivery.pk).update(history=[entry], tries=1, **fields)
    return delivery


def test_a_secret_is_shown_once_when_made_and_once_when_renewed(ada):
    made = ada.post("/settings/webhooks/+new/", {"url": URL, "team": "vision", "events": ["release.ended"]})
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    place = f"/settings/webhooks/{WebhookEndpoint.objects.get().pk}/"
    secret = re.search(r'<code id="secret">(whsec_[^<]+)</code>', text_of(made))[1]
    assert secret not in text_of(ada.get(place))
    assert "both secrets" in text_of(ada.get(f"{place}rotate/"))
    renewed = ada.post(f"{place}rotate/", {"reason": "It leaked."})
    assert (renewed.status_code, renewed["Cache-Control"]) == (201, "no-store")
    assert secret not in text_of(renewed)
    assert AuditRecord.objects.get(action="webhook.rotate_secret").reason == "It leaked."


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"url": "https://10.0.0.1/", "team": "vision"}, "url"),
        ({"url": "", "team": "vision"}, "url"),
        ({"url": URL, "team": ""}, "team"),
        ({"url": URL, "team": "vision", "events": ["release.exploded"]}, "events"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(ada, given, field):
    answer = ada.post("/settings/webhooks/+new/", given)
    assert answer.status_code == 422
    assert f'id="id_{field}_error"' in text_of(answer)
    assert not WebhookEndpoint.objects.exists()


def test_events_stand_under_what_they_are_of_and_an_app_decides_their_order(ada):
    page = text_of(ada.get("/settings/webhooks/+new/"))
    told = ["Releases", "release.moved", "release.ended", "Fleet", "worker.lost", "Models", "version.ready"]
    told += ["alias.moved", "version.exported", "Installation", "disk.low", "audit.head"]
    places = [page.index(name, page.index("id_events")) for name in told]
    assert places == sorted(places)


def test_only_who_may_change_webhooks_sees_them(endpoint):
    place = f"/settings/webhooks/{endpoint.pk}/"
    bob = client_of(cast.person("bob", vision="approver"))
    eve = client_of(cast.person("eve", other="admin"))
    assert endpoint.place not in text_of(bob.get("/settings/webhooks/"))
    assert bob.get("/settings/webhooks/+new/").status_code == 403
    assert bob.get(place).status_code == 404
    assert eve.get("/settings/webhooks/").status_code == 200
    for path in ("", "rotate/", "deliveries/1/"):
        assert eve.get(f"{place}{path}").status_code == 404
    for path in ("", "test/", "rotate/", "enabled/", "delete/", "deliveries/1/replay/"):
        assert eve.post(f"{place}{path}", {"reason": "x"}, headers=PART).status_code == 404


def test_a_viewer_makes_one_of_their_own_and_sees_it_under_their_account(settings):
    settings.SLIPWAY_SMTP_URL = "smtp://127.0.0.1:25"
    user = cast.person("vera", vision="viewer")
    vera = client_of(user)
    sent = {"format": "email", "events": ["alert.firing"], "teams": ["vision"], "severity": "critical"}
    refused = vera.post("/settings/webhooks/+own/", sent)
    assert refused.status_code == 422
    assert "no e-mail address" in text_of(refused)
    user.email = "vera@example.org"
    user.save()
    assert vera.post("/settings/webhooks/+own/", sent).status_code == 302
    row = WebhookEndpoint.objects.get()
    assert (row.person, row.url, row.teams, row.severity) == (user, "mailto:", ["vision"], "critical")
    assert "vera@example.org" in text_of(vera.get("/settings/account/"))
    changed = sent | {"revision": row.revision, "severity": "any", "description": "All of them"}
    assert vera.post(f"/settings/webhooks/{row.pk}/", changed).status_code == 302
    row.refresh_from_db()
    assert (row.severity, row.url) == ("any", "mailto:")
    ada = client_of(cast.person("ada", vision="admin"))
    assert ada.get(f"/settings/webhooks/{row.pk}/").status_code == 404


def test_administrators_make_one_for_everything(endpoint):
    root = client_of(cast.person("root", superuser=True))
    assert "The whole installation" in text_of(root.get("/settings/webhooks/+new/"))
    assert root.post("/settings/webhooks/+new/", {"url": URL, "team": ""}).status_code == 201
    assert WebhookEndpoint.objects.filter(team=None).count() == 1


def test_a_list_names_the_host_and_not_what_may_be_secret(ada, endpoint):
    shown = text_of(ada.get("/settings/webhooks/"))
    assert "hooks.example.org/secr…" in shown
    assert "secret-path" not in shown


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://hooks.example.org/", "hooks.example.org"),
        ("https://hooks.example.org:8443/hook-a?key=s3cr3t", "hooks.example.org:8443/hook-a"),
        ("https://me:s3cr3t@hooks.example.org/ci/main", "hooks.example.org/ci/main"),
        ("https://hooks.example.org/services/T024BE7LV1/B0/XyZ", "hooks.example.org/services/T024…"),
        ("https://hooks.example.org/api/webhooks/12/XyZ", "hooks.example.org/api/webhooks/…"),
        ("https://[2001:db8::1]:9000/0f8fad5b-d9cb-469f", "[2001:db8::1]:9000/0f8f…"),
    ],
)
def test_webhooks_of_one_host_can_be_told_apart(url, told):
    assert WebhookEndpoint(url=url).place == told


def test_a_test_is_sent_and_the_history_refreshes_while_it_is_on_its_way(ada, endpoint):
    place = f"/settings/webhooks/{endpoint.pk}/"
    assert "every 2s" not in text_of(ada.get(place))
    assert ada.post(f"{place}test/", headers=PART).status_code == 204
    shown = text_of(ada.get(place))
    assert "webhook.test" in shown
    assert "every 2s" in shown


def test_a_delivery_shows_its_tries_and_can_be_replayed(ada, endpoint):
    delivery = tried(endpoint, state="given_up")
    place = f"/settings/webhooks/{endpoint.pk}/deliveries/{delivery.pk}/"
    shown = text_of(ada.get(place))
    assert "&lt;b&gt;no&lt;/b&gt;" in shown
    assert "31 ms" in shown
    assert "&quot;type&quot;: &quot;webhook.test&quot;" in shown
    assert ada.post(f"{place}replay/", headers=PART).status_code == 204
    delivery.refresh_from_db()
    assert delivery.state == "pending"
    again = ada.post(f"{place}replay/", headers=PART)
    assert again.status_code == 422
    assert "still queued" in text_of(again)


def test_disabling_and_deleting_need_a_reason(ada, endpoint):
    place = f"/settings/webhooks/{endpoint.pk}/"
    for path in ("enabled/", "delete/"):
        assert ada.post(f"{place}{path}", {"reason": " "}, headers=PART).status_code == 422
    assert ada.post(f"{place}enabled/", {"reason": "It moves."}, headers=PART).status_code == 204
    assert "It moves." in text_of(ada.get(place))
    assert ada.post(f"{place}test/", headers=PART).status_code == 422
    assert ada.post(f"{place}enabled/", {"enabled": "yes"}, headers=PART).status_code == 204
    endpoint.refresh_from_db()
    assert endpoint.enabled
    assert ada.post(f"{place}delete/", {"reason": "Gone."}, headers=PART).status_code == 204
    assert not WebhookEndpoint.objects.exists()


def test_a_change_over_someone_elses_is_refused(ada, endpoint):
    place = f"/settings/webhooks/{endpoint.pk}/"
    given = {"url": URL, "description": "New words", "events": ["alias.moved"], "revision": endpoint.revision}
    assert ada.post(place, given).status_code == 302
    endpoint.refresh_from_db()
    assert (endpoint.description, endpoint.events) == ("New words", ["alias.moved"])
    late = ada.post(place, given | {"description": "Other words"})
    assert late.status_code == 422
    assert "changed by someone else" in text_of(late)


def test_an_endpoint_that_fails_says_so(ada, endpoint):
    assert ada.post(f"/settings/webhooks/{endpoint.pk}/test/", headers=PART).status_code == 204
    assert "behind a failing receiver" not in text_of(ada.get(f"/settings/webhooks/{endpoint.pk}/"))
    WebhookEndpoint.objects.update(failing_since=timezone.now() - timedelta(hours=2), failures=3)
    shown = text_of(ada.get(f"/settings/webhooks/{endpoint.pk}/"))
    assert "Deliveries are failing" in shown
    assert "behind a failing receiver" in shown
    assert "Failing" in text_of(ada.get("/settings/webhooks/"))


def test_longer_lists_ask_no_more_questions(ada, endpoint, django_assert_max_num_queries):
    for _ in range(20):
        tried(endpoint, state="delivered")
        create_webhook(actor=SYSTEM, url=URL, team=cast.team("vision"))
    for path in ("", f"{endpoint.pk}/"):
        with django_assert_max_num_queries(8):
            ada.get(f"/settings/webhooks/{path}")


def test_what_refreshes_tells_when_it_was_last_reached_and_that_nothing_reaches_it(ada, endpoint):
    place = f"/settings/webhooks/{endpoint.pk}/"
    assert "Last success: never" in text_of(ada.get(place, headers=PART))
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(
        delivered_at=timezone.now() - timedelta(hours=1), failing_since=timezone.now()
    )
    part = text_of(ada.get(place, headers=PART))
    assert "Last success: never" not in part
    assert "Deliveries are failing." in part


def test_the_admin_of_one_team_need_not_choose_it(ada):
    form = text_of(ada.get("/settings/webhooks/+new/"))
    teams = re.findall(r'<select name="team".*?</select>', form, re.DOTALL)
    options = re.findall(r"<option[^>]*>([^<]*)</option>", "".join(teams))
    assert [option.strip() for option in options] == ["vision"]
