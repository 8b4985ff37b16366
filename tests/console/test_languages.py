"""Pages and times in the reader's language and zone; a check that no text is left out of the catalogues."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings
from django.test import Client
from django.utils import translation

from accounts.models import User
from common.languages import browser_texts
from common.pages import formats
from tests.cast import person
from tests.console.cases import S
from tests.texts import unmarked
from tests.texts.catalogues import is_part

pytestmark = pytest.mark.any_database
CHINESE = "zh-CN,zh;q=0.9,en;q=0.5"
NOW = datetime(2026, 11, 21, 1, 24, 5, tzinfo=UTC)


@pytest.fixture
def ada(db) -> User:
    return person("ada", vision="developer")


@pytest.fixture
def browser_of_ada(ada) -> Client:
    client = Client()
    client.force_login(ada)
    return client


def language_of(response) -> str:
    return response.content.decode().split('<html lang="')[1].split('"')[0]


@pytest.mark.django_db
def test_a_page_is_in_the_language_that_the_browser_asks_for(client):
    assert language_of(client.get("/accounts/login/", headers={"Accept-Language": CHINESE})) == "zh-hans"
    assert language_of(client.get("/accounts/login/", headers={"Accept-Language": "fr"})) == "en"
    response = client.get("/accounts/login/")
    assert {"Accept-Language", "Cookie"} <= {name.strip() for name in response["Vary"].split(",")}


@pytest.mark.django_db
def test_whoever_is_not_signed_in_chooses_a_language_on_the_page(client):
    response = client.post("/language/", {"language": "zh-hans", "next": "/accounts/login/"})
    assert response["Location"] == "/accounts/login/"
    assert language_of(client.get("/accounts/login/", headers={"Accept-Language": "en"})) == "zh-hans"


@pytest.mark.django_db
def test_languages_are_offered_by_their_own_names_in_each_of_them(client):
    for language in ("en", "zh-hans"):
        page = client.get("/accounts/login/", headers={"Accept-Language": language}).content.decode()
        assert re.findall(r'name="language" value="([^"]+)"[^>]*>([^<]+)<', page) == settings.LANGUAGES


def test_the_language_and_zone_of_a_persons_settings_come_before_the_browsers(browser_of_ada, ada):
    kept = browser_of_ada.post("/settings/account/", {"language": "zh-hans", "time_zone": "Asia/Shanghai"})
    assert kept.status_code == 302
    response = browser_of_ada.get("/settings/account/", headers={"Accept-Language": "en"})
    assert language_of(response) == response["Content-Language"] == "zh-hans"
    assert "UTC+8" in response.content.decode()
    assert 'data-time-zone="Asia/Shanghai"' in response.content.decode()
    assert translation.get_language() == "en"


def test_a_zone_that_does_not_exist_is_refused(browser_of_ada, ada):
    response = browser_of_ada.post("/settings/account/", {"time_zone": "Mars/Olympus"})
    assert response.status_code == 422
    ada.refresh_from_db()
    assert ada.time_zone == ""


def test_rest_answers_by_the_header_alone(browser_of_ada, ada):
    User.objects.filter(pk=ada.pk).update(language="zh-hans")
    assert browser_of_ada.get("/api/v1/models/nobody/")["Content-Language"] == "en"


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(seconds=1), "刚刚"),
        (timedelta(seconds=12), f"12{S}秒前"),
        (timedelta(minutes=-4, seconds=-10), f"4{S}分钟后"),
        (timedelta(days=31), "2026年10月21日"),
    ],
)
def test_a_moment_reads_as_its_distance_in_chinese(age, text):
    with translation.override("zh-hans"):
        assert formats.relative(NOW - age, NOW) == text


@pytest.mark.browser
def test_a_page_in_chinese_goes_on_telling_times_in_chinese(tab):
    tab.page.set_extra_http_headers({"Accept-Language": CHINESE})
    tab.open("/settings/account/")
    told = tab.page.evaluate(
        """async ([moment, now]) => {
          const format = await import("slipway/format");
          return [format.relative(moment, now), format.span(245)];
        }""",
        [(NOW - timedelta(minutes=3)).timestamp() * 1000, NOW.timestamp() * 1000],
    )
    with translation.override("zh-hans"):
        assert told == [formats.relative(NOW - timedelta(minutes=3), NOW), formats.span(245)]
    assert told[0].endswith("前")
    assert tab.violations() == []
    assert tab.complaints == []


def test_a_page_holds_what_its_modules_say_and_nothing_in_english():
    assert browser_texts("en") == ""
    assert json.loads(browser_texts("zh-hans"))["Signed out"] == "已退出登录"


def test_every_text_is_marked():
    assert [*unmarked.faults()] == []


def test_the_check_finds_what_is_not_marked():
    html = '<p title="Look here">Some words</p>{% empty title="No rows yet" %}{% translate "Marked" %}'
    assert [text for _, text in unmarked.template_faults(html)] == ["No rows yet", "Look here", "Some words"]
    code = 'raise Invalid(f"Too {many}")\nraise Invalid(_("Marked"))\nField(label="A field")'
    assert [line for line, _ in unmarked.python_faults(code, {"Invalid"})] == [1, 3]
    script = 'toast("Something is wrong"); toast(gettext("Marked words"));'
    assert [text for _, text in unmarked.script_faults(script)] == ['"Something is wrong"']


def test_the_check_finds_sentences_that_are_put_together():
    code = 'f"{number} of them wait"\nf"/services/{name}/"\nf"<b title=\\"{said}\\">"\nf"judge, {limit}"'
    assert [line for line, _ in unmarked.glued(code)] == [1, 4]
    parts = [
        text for text in (" and ", ", use it", "It goes on. ", ". Only", "It continues.") if is_part(text)
    ]
    assert parts == [" and ", ", use it", "It goes on. ", ". Only"]
