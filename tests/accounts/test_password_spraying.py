"""Guessing at many names is limited by address and in all, and locks out whoever guesses."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from common.models import AuditRecord
from tests.accounts.test_login import sign_in, signed_in
from tests.cast import person

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
ATTACKER = "203.0.113.9"


@pytest.fixture(autouse=True)
def _limits(settings):
    settings.SLIPWAY_LOCKOUT_AFTER_ADDRESS, settings.SLIPWAY_LOCKOUT_AFTER_ALL = 6, 12


def spray(address, count, start=0):
    return [
        sign_in(Client(), f"name{start + number}", "Winter2026!", REMOTE_ADDR=address).status_code
        for number in range(count)
    ]


def test_forty_names_from_one_address_are_refused_after_the_limit():
    person("name39", superuser=True)
    assert spray(ATTACKER, 40) == [200] * 6 + [429] * 34
    locked = sign_in(Client(), "name39", REMOTE_ADDR=ATTACKER)
    assert locked.status_code == 429
    assert b"under several names" in locked.content
    assert 800 < int(locked["Retry-After"]) <= 900
    row = AuditRecord.objects.get()
    assert (row.action, row.address, row.detail["failures"]) == ("session.lockout", ATTACKER, 6)


def test_a_browser_that_has_signed_in_is_not_locked_out_by_its_neighbour():
    ada, browser = person("ada"), Client()
    sign_in(browser, REMOTE_ADDR=ATTACKER)
    del browser.cookies["sessionid"]
    spray(ATTACKER, 7)
    assert sign_in(browser, "Ada", REMOTE_ADDR=ATTACKER).status_code == 302
    assert signed_in(browser)
    person("bob")
    del browser.cookies["sessionid"]
    assert sign_in(browser, "bob", REMOTE_ADDR=ATTACKER).status_code == 429, "it is known as ada's only"
    browser.cookies["slipway_browser"] = "forged:x"
    assert sign_in(browser, ada.username, REMOTE_ADDR=ATTACKER).status_code == 429


def test_other_addresses_are_not_locked_out_by_one():
    person("ada")
    spray(ATTACKER, 20)
    assert sign_in(Client(), REMOTE_ADDR="10.1.1.1").status_code == 302


def test_many_addresses_are_limited_together_but_for_those_that_are_known():
    person("ada")
    office, browser = "10.1.1.1", Client()
    sign_in(browser, REMOTE_ADDR=office)
    for number in range(3):
        spray(f"203.0.113.{number}", 4, start=10 * number)
    refused = sign_in(Client(), REMOTE_ADDR="203.0.113.77")
    assert refused.status_code == 429
    assert b"in the whole installation" in refused.content
    assert sign_in(Client(), REMOTE_ADDR=office).status_code == 302
    del browser.cookies["sessionid"]
    assert sign_in(browser, REMOTE_ADDR="198.51.100.4").status_code == 302


def test_the_limits_end_with_the_lockout(settings):
    from axes.models import AccessAttempt

    person("ada")
    spray(ATTACKER, 7)
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert sign_in(Client(), REMOTE_ADDR=ATTACKER).status_code == 302


def test_failures_that_end_in_a_sign_in_do_not_count():
    person("ada")
    for _ in range(4):
        for _ in range(2):
            sign_in(Client(), password="wrong", REMOTE_ADDR=ATTACKER)
        assert sign_in(Client(), REMOTE_ADDR=ATTACKER).status_code == 302
