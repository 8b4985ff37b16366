"""Lists in pages: nothing twice, nothing missed, whatever comes and goes; garbage is a 400."""

from datetime import UTC, date, datetime
from decimal import Decimal
from urllib.parse import quote
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.models import Team
from common.api.cursors import PageCursor
from tests.cast import Api, api, person, team, token_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> Api:
    return api(person("root", superuser=True))


def names(page: dict) -> list[str]:
    return [row["name"] for row in page["results"]]


def walk(root: Api, path: str, direction: str = "next") -> list[list[str]]:
    pages = []
    while path:
        page = root.get(path.replace("http://testserver", "")).json()
        pages.append(names(page))
        path = page[direction]
    return pages


def test_pages_follow_each_other_and_lead_back(root):
    for letter in "hagbfced":
        team(letter)
    assert walk(root, "teams/?limit=3") == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
    second = root.get(root.get("teams/?limit=3").json()["next"].replace("http://testserver", "")).json()
    assert walk(root, second["previous"], "previous") == [["a", "b", "c"]]
    third = root.get(second["next"].replace("http://testserver", "")).json()
    assert walk(root, third["previous"], "previous") == [["d", "e", "f"], ["a", "b", "c"]]
    assert root.get("teams/?limit=3").json()["previous"] is None


def test_a_short_list_is_one_page(root):
    team("a")
    assert root.get("teams/").json() | {"results": []} == {"next": None, "previous": None, "results": []}
    Team.objects.all().delete()
    assert root.get("teams/").json() == {"next": None, "previous": None, "results": []}


@pytest.mark.parametrize("sort", ["name", "-name", "created_at", "-created_at"])
@pytest.mark.parametrize("limit", [1, 2, 7])
def test_every_row_comes_once_in_every_order(root, sort, limit):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for n in range(7):
        # All at one moment: only the key tells them apart.
        Team.objects.create(name=f"t{n}", created_at=moment)
    seen = [name for page in walk(root, f"teams/?limit={limit}&sort={sort}") for name in page]
    assert seen == sorted(seen, reverse=sort.startswith("-"))
    assert len(seen) == 7


def test_rows_that_come_and_go_meanwhile_neither_repeat_nor_hide_others(root):
    for name in ("b", "d", "f", "h"):
        team(name)
    first = root.get("teams/?limit=2").json()
    team("a"), team("c"), team("e")
    Team.objects.filter(name="d").delete()
    rest = walk(root, first["next"])
    assert names(first) + [name for page in rest for name in page] == ["b", "d", "e", "f", "h"]


def test_paging_keeps_the_other_parameters(root):
    for n in range(4):
        team(f"vision{n}"), team(f"speech{n}")
    assert walk(root, "teams/?q=vision&limit=3") == [["vision0", "vision1", "vision2"], ["vision3"]]


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "", "1e3", "٣", "9" * 5000, "1.5"])
def test_a_limit_beyond_the_limits_is_refused(root, limit):
    answer = root.get(f"teams/?limit={quote(limit)}")
    assert answer.status_code == 400
    assert answer.json()["errors"] == {"limit": ["Give a whole number from 1 to 1,000."]}


def test_a_thousand_rows_come_at_once(root):
    Team.objects.bulk_create(Team(name=f"t{n:04}") for n in range(1001))
    assert [len(page) for page in walk(root, "teams/?limit=1000")] == [1000, 1]


def test_an_unknown_order_is_refused_and_the_known_ones_are_named(root):
    answer = root.get("teams/?sort=password")
    assert "name, created_at" in answer.json()["errors"]["sort"][0]


def test_a_cursor_belongs_to_its_list_and_its_order(root):
    for name in "abc":
        team(name)
    cursor = root.get("teams/?limit=1").json()["next"].split("cursor=")[1].split("&")[0]
    assert root.get(f"teams/?sort=-name&cursor={cursor}").status_code == 400
    assert root.get(f"people/?cursor={cursor}").status_code == 400
    assert root.get(f"teams/?cursor={cursor[:-1]}").status_code == 400
    assert root.get(f"teams/?cursor={cursor}").status_code == 200


def test_a_cursor_does_not_widen_what_one_may_see(root):
    person("ada", a="viewer")
    for name in "abc":
        team(name)
    cursor = root.get("teams/?limit=1").json()["next"].split("cursor=")[1].split("&")[0]
    ada = api(person("bob", a="viewer"))
    assert ada.get(f"teams/?limit=1&cursor={cursor}").json()["results"] == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(garbage=st.one_of(st.text(min_size=1), st.binary(min_size=1).map(lambda b: b.decode("latin-1"))))
def test_garbage_for_a_cursor_is_a_400_never_a_500(root, garbage):
    answer = root.get(f"teams/?cursor={quote(garbage)}")
    assert answer.status_code == 400
    if "\0" not in garbage:
        assert list(answer.json()["errors"]) == ["cursor"]


values = st.one_of(
    st.text(),
    st.integers(),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.datetimes(timezones=st.just(UTC)),
    st.dates(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.uuids(),
)


@given(value=values, pk=st.one_of(st.integers(), st.uuids(), st.text()), forward=st.booleans())
def test_a_cursor_reads_back_what_it_holds(value, pk, forward):
    cursor = PageCursor("-created_at", forward, value, pk)
    back = PageCursor.opened(cursor.sealed("/api/v1/teams/"), "/api/v1/teams/")
    assert back == cursor
    assert type(back.value) is type(value)


@given(text=st.text())
def test_what_was_not_sealed_does_not_open(text):
    with pytest.raises(ValueError):
        PageCursor.opened(text, "/api/v1/teams/")


def test_kinds_of_values_that_lists_are_sorted_by():
    for value in (datetime.now(UTC), date(2026, 1, 1), Decimal("1.50"), UUID(int=7)):
        assert PageCursor.opened(PageCursor("x", True, value, 1).sealed("/p"), "/p").value == value


def test_tokens_are_listed_newest_first(root):
    ada = person("ada")
    for _ in range(3):
        token_of(ada)
    created = [row["created_at"] for row in api(ada).get("tokens/").json()["results"]]
    assert created == sorted(created, reverse=True)
    assert len(created) == 4
