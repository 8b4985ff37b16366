import pytest
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.test import RequestFactory
from django_filters import CharFilter, FilterSet

from common.pages.listing import ListPage, list_page

pytestmark = pytest.mark.django_db
SORTS = {"name": "username", "seen": "last_login"}


class People(FilterSet):
    q = CharFilter(field_name="username", lookup_expr="icontains")

    class Meta:
        model = get_user_model()
        fields = ("q",)


@pytest.fixture
def people() -> QuerySet:
    User = get_user_model()
    User.objects.bulk_create(User(username=f"person-{index:03d}", password="!") for index in range(120))
    return User.objects.all()


def ask(query: str, people: QuerySet, **options: object) -> ListPage:
    request = RequestFactory().get(f"/people/{query}")
    return list_page(request, people, sorts=SORTS, default_sort="name", filters=People, **options)


def test_the_first_page_says_how_many_rows_there_are(people: QuerySet) -> None:
    listing = ask("", people)
    assert (listing.first, listing.last, listing.total) == (1, 50, 120)
    assert not listing.has_previous
    assert listing.next_url == "?page=2"


def test_leafing_shows_every_row_once(people: QuerySet) -> None:
    seen: list[str] = []
    query = ""
    while True:
        listing = ask(query, people)
        seen += [row.username for row in listing.rows]
        if not listing.has_next:
            break
        query = listing.next_url
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen) == 120
    assert listing.previous_url == "?page=2"


def test_rows_that_tie_come_in_a_fixed_order_and_missing_values_last(people: QuerySet) -> None:
    for query in ("?sort=seen", "?sort=-seen"):
        first = [row.pk for row in ask(query, people).rows]
        second = [row.pk for row in ask(f"{query}&page=2", people).rows]
        assert not set(first) & set(second)


@pytest.mark.parametrize("page", ["0", "-1", "x", "", "²", "9" * 40, "1e3"])
def test_an_unreadable_page_number_still_opens_the_list(people: QuerySet, page: str) -> None:
    listing = ask(f"?page={page}", people)
    assert listing.rows
    assert listing.number in (1, 3)


def test_a_page_beyond_the_end_is_the_last_one(people: QuerySet) -> None:
    assert ask("?page=77", people).number == 3


def test_an_unknown_sort_is_the_default_one(people: QuerySet) -> None:
    listing = ask("?sort=password", people)
    assert listing.sort == "name"
    assert listing.rows[0].username == "person-000"


def test_filters_narrow_and_links_keep_them(people: QuerySet) -> None:
    listing = ask("?q=person-11&sort=-name", people)
    assert [row.username for row in listing.rows] == [f"person-{index}" for index in range(119, 109, -1)]
    assert listing.is_filtered
    assert listing.unfiltered_url == "?sort=-name"
    assert listing.sort_url("name") == "?q=person-11&sort=name"
    assert listing.sorted_by("name") == "descending"


def test_a_sort_link_starts_at_the_first_page_again(people: QuerySet) -> None:
    listing = ask("?page=2", people)
    assert listing.sort_url("seen", descending_first=True) == "?sort=-seen"


def test_a_list_without_a_count_still_knows_whether_more_follows(
    people: QuerySet, django_assert_num_queries
) -> None:
    with django_assert_num_queries(1):
        listing = ask("?page=2", people, counted=False)
    assert listing.total is None
    assert listing.has_next
    assert (listing.first, listing.last) == (51, 100)


def test_a_page_costs_two_queries(people: QuerySet, django_assert_num_queries) -> None:
    with django_assert_num_queries(2):
        ask("?q=person&sort=-seen&page=2", people)


def test_an_empty_list_counts_from_nothing(people: QuerySet) -> None:
    listing = ask("?q=nobody", people)
    assert (listing.first, listing.last, listing.total, listing.has_next) == (0, 0, 0, False)
