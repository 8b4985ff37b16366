"""Signing in, signing out and the API's pages in a real browser, under the real headers."""

import re

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.stack]

PASSWORD = "a long password"


def test_one_signs_in_and_out_with_nothing_blocked(new_tab):
    tab = new_tab(signed_in=False)
    tab.open("/accounts/login/?next=/accounts/password/change/")
    assert tab.page.title().startswith("Sign in")
    tab.page.get_by_label("Username").fill("ada.lovelace")
    tab.page.get_by_label("Password").fill(PASSWORD)
    tab.page.get_by_role("button", name="Sign in").click()
    tab.page.wait_for_url("**/accounts/password/change/")
    assert tab.page.get_by_label("Current Password").is_visible()
    tab.open("/accounts/logout/")
    tab.page.get_by_role("button", name="Sign out").click()
    tab.page.wait_for_url(lambda url: "/logout/" not in url)
    tab.open("/accounts/password/change/")
    assert "/accounts/login/" in tab.page.url
    assert tab.violations() == []


def test_a_wrong_password_is_said_where_the_eye_is(new_tab):
    tab = new_tab(signed_in=False)
    tab.open("/accounts/login/")
    tab.page.get_by_label("Username").fill("ada.lovelace")
    tab.page.get_by_label("Password").fill("wrong")
    tab.page.get_by_role("button", name="Sign in").click()
    tab.page.get_by_text("not correct").wait_for()
    assert tab.violations() == []


def test_the_api_pages_draw_every_operation_and_try_one_under_the_strict_policy(new_tab):
    tab = new_tab(height=32_000)  # they are drawn where one looks
    tab.open("/api/docs/")
    tab.page.locator(".opblock").nth(99).wait_for()
    me = tab.page.locator("#operations-me-me_retrieve")
    me.locator(".opblock-summary").click()
    me.get_by_role("button", name="Try it out").click()
    me.get_by_role("button", name="Execute").click()
    me.locator(".live-responses-table").wait_for()
    assert re.search(r'"username":\s*"ada\.lovelace"', me.locator(".live-responses-table").inner_text())
    assert tab.violations() == []
    assert tab.complaints == []


def test_the_policy_allows_no_inline_script_and_no_other_host(tab):
    answer = tab.page.goto(tab.url + "/accounts/password/change/")
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"https?:(?!//127\.0\.0\.1)", policy)
