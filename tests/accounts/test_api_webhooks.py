"""Webhooks over REST: secrets are shown once, what cannot be is refused, and history can be replayed."""

import pytest

from accounts.models import User, WebhookEndpoint
from common.models import AuditRecord
from tests import cast
from tests.cast import Api

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
URL = "https://hooks.example.org/slipway"


@pytest.fixture
def ada() -> Api:
    """The admin of one team."""
    return cast.api(cast.person("ada", vision="admin"))


@pytest.fixture
def root() -> Api:
    return cast.api(cast.person("root", superuser=True))


def test_the_secret_is_shown_once_and_stored_sealed(ada):
    made = ada.post("webhooks/", {"url": URL, "team": "vision", "events": ["release.ended"]})
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    secret = made.json()["secret"]
    assert secret.startswith("whsec_")
    row = WebhookEndpoint.objects.get()
    assert secret.removeprefix("whsec_") not in row.sealed_secret
    for path in ("webhooks/", made["Location"], f"{made['Location']}deliveries/"):
        assert secret not in ada.get(path).content.decode()
    assert not any(secret in str(one.detail) for one in AuditRecord.objects.all())
    rotated = ada.post(f"{made['Location']}rotate-secret/").json()
    assert rotated["secret"] != secret
    assert rotated["former_secret_until"] is not None


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"url": "https://127.0.0.1/"}, "url"),
        ({"url": "https://169.254.169.254/latest/"}, "url"),
        ({"url": "https://[::ffff:10.0.0.1]/"}, "url"),
        ({"url": "http://93.184.215.14/"}, "url"),
        ({"url": "ftp://hooks.example.org/"}, "url"),
        ({"url": ""}, "url"),
        ({"events": ["release.exploded"]}, "events"),
        ({"team": "nowhere"}, "team"),
        ({"description": "x" * 301}, "description"),
        ({"person": "ada"}, "person"),
        ({"person": "nobody"}, "person"),
        ({"teams": ["vision"]}, "teams"),
        ({"severity": "awful"}, "severity"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(ada, wrong, field):
    answer = ada.post("webhooks/", {"url": URL, "team": "vision"} | wrong)
    assert answer.status_code == 400
    assert field in answer.json()["errors"]
    assert not WebhookEndpoint.objects.exists()


def test_only_administrators_hear_of_the_whole_installation(ada, root):
    assert ada.post("webhooks/", {"url": URL}).status_code == 403
    made = root.post("webhooks/", {"url": URL})
    assert made.status_code == 201
    assert made.json()["team"] is None
    assert ada.get(made["Location"]).status_code == 404
    assert ada.get("webhooks/").json()["results"] == []


def test_it_is_changed_by_compare_and_set_disabled_with_a_reason_and_enabled(ada):
    made = ada.post("webhooks/", {"url": URL, "team": "vision"})
    place, tag = made["Location"], made["ETag"]
    off = ada.patch(place, {"enabled": False, "reason": "It moves."}, If_Match=tag)
    assert (off.json()["enabled"], off.json()["disabled_why"]) == (False, "It moves.")
    assert ada.patch(place, {"enabled": True}, If_Match=tag).status_code == 412
    assert ada.post(f"{place}test/").status_code == 409
    assert ada.patch(place, {"url": "https://10.0.0.1/"}).status_code == 400
    on = ada.patch(place, {"enabled": True, "events": ["version.ready", "alias.moved"]})
    assert (on.json()["disabled_why"], on.json()["events"]) == ("", ["alias.moved", "version.ready"])
    assert ada.delete(place).status_code == 204
    assert ada.get(place).status_code == 404


def test_a_test_is_among_the_deliveries_with_what_it_says(ada):
    place = ada.post("webhooks/", {"url": URL, "team": "vision"})["Location"]
    sent = ada.post(f"{place}test/")
    assert (sent.status_code, sent.json()["state"]) == (202, "pending")
    listed = ada.get(f"{place}deliveries/?type=webhook.test&state=pending").json()["results"]
    assert [one["id"] for one in listed] == [sent.json()["id"]]
    assert ada.get(f"{place}deliveries/?state=delivered").json()["results"] == []
    one = ada.get(f"{place}deliveries/{sent.json()['id']}/").json()
    assert one["body"]["type"] == "webhook.test"
    assert one["body"]["data"]["by"] == "ada"
    assert ada.post(f"{place}deliveries/{one['id']}/replay/").status_code == 409


class TestWebhookOfAPerson:
    def test_it_is_seen_by_its_owner_and_by_administrators_alone(self, ada, root):
        bob = cast.api(cast.person("bob", vision="viewer"))
        made = bob.post(
            "webhooks/", {"url": URL, "person": "bob", "teams": ["vision"], "severity": "critical"}
        )
        assert made.status_code == 201, made.content
        shown = bob.get(made["Location"]).json()
        assert (shown["person"], shown["team"], shown["teams"]) == ("bob", None, ["vision"])
        assert bob.patch(made["Location"], {"severity": "any"}).json()["severity"] == "any"
        for other in (ada, cast.api(cast.person("eve", vision="operator"))):
            assert other.get(made["Location"]).status_code == 404
            assert other.get("webhooks/").json()["results"] == []
            assert other.delete(made["Location"]).status_code == 404
            assert other.post("webhooks/", {"url": URL, "person": "bob"}).status_code == 403
        assert root.get(made["Location"]).status_code == 200

    def test_a_token_needs_the_scope_and_no_limit(self, ada):
        bob = cast.person("bob", vision="viewer")
        for token in ({"scopes": ["read"]}, {"only_team": cast.team("vision")}, {"services": ["chat"]}):
            answer = cast.api(bob, **token).post("webhooks/", {"url": URL, "person": "bob"})
            assert answer.status_code == 403
            assert "webhooks.write" in answer.json()["detail"]
        assert not WebhookEndpoint.objects.exists()

    def test_e_mail_goes_to_the_address_of_the_account(self, settings):
        user = cast.person("bob", vision="viewer")
        bob, mine = cast.api(user), {"person": "bob", "format": "email"}
        assert "format" in bob.post("webhooks/", mine).json()["errors"], "no address"
        User.objects.filter(pk=user.pk).update(email="bob@example.org")
        assert "format" in bob.post("webhooks/", mine).json()["errors"], "no mail server"
        settings.SLIPWAY_SMTP_URL = "smtp://127.0.0.1:25"
        assert "url" in bob.post("webhooks/", mine | {"url": "mailto:eve@example.org"}).json()["errors"]
        made = bob.post("webhooks/", mine)
        assert made.json()["url"] == "mailto:bob@example.org"
        User.objects.filter(pk=user.pk).update(email="new@example.org")
        assert bob.get(made["Location"]).json()["url"] == "mailto:new@example.org"

    def test_teams_of_others_and_accounts_of_programs_are_refused(self):
        bob = cast.api(cast.person("bob", vision="viewer"))
        cast.team("audio")
        answer = bob.post("webhooks/", {"url": URL, "person": "bob", "teams": ["vision", "audio"]})
        assert "audio" in answer.json()["errors"]["teams"][0]
        robot = cast.person("robot", vision="developer")
        User.objects.filter(pk=robot.pk).update(kind="service")
        answer = cast.api(robot).post("webhooks/", {"url": URL, "person": "robot"})
        assert "person" in answer.json()["errors"]
