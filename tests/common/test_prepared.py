"""Queries that are put together once answer as those that are put together each time."""

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db.models import QuerySet

from accounts.models import Membership, Team, User
from common.prepared import Ids, Texts, prepared

pytestmark = pytest.mark.django_db


@prepared
def people(ids: Ids, names: Texts, but: int) -> QuerySet[User]:
    rows = User.objects.filter(pk__in=ids, username__in=names).exclude(pk=but)
    return rows.defer("password").order_by("username")


@prepared
def roles(person: str) -> QuerySet[Membership, tuple[str, str, object]]:
    rows = Membership.objects.filter(user__username=person).order_by("team__name")
    return rows.values_list("team__name", "role", "user__date_joined")


@pytest.fixture
def crowd() -> list[User]:
    made = [User.objects.create(username=f"person-{number:02}") for number in range(9)]
    teams = [Team.objects.create(name=name) for name in ("audio", "vision")]
    Membership.objects.bulk_create([Membership(user=made[2], team=team, role="viewer") for team in teams])
    return made


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_lists_of_every_length_find_what_they_name(crowd, count: int) -> None:
    ids = [one.pk for one in crowd[:count]]
    names = {one.username for one in crowd} | {"nobody"}
    found = people(ids, names, crowd[-1].pk)
    assert found == crowd[:count]
    assert people(ids, names, crowd[0].pk) == crowd[1:count]
    assert found[0].date_joined == User.objects.get(pk=ids[0]).date_joined
    assert found[0].get_deferred_fields() == {"password"}


def test_columns_have_the_types_that_they_have_otherwise(crowd) -> None:
    joined = User.objects.get(username="person-02").date_joined
    assert roles("person-02") == [("audio", "viewer", joined), ("vision", "viewer", joined)]
    assert roles("person-03") == []


def test_it_is_put_together_once_for_lengths_up_to_a_power_of_two_and_asks_each_time(
    crowd, django_assert_num_queries, monkeypatch
) -> None:
    names = [one.username for one in crowd]
    people([one.pk for one in crowd[:3]], names, 0)
    monkeypatch.setattr("django.db.models.sql.compiler.SQLCompiler.setup_query", None)
    with django_assert_num_queries(1):
        assert len(people([one.pk for one in crowd[:4]], names, 0)) == 4


def test_nothing_is_asked_for_an_empty_list(crowd, django_assert_num_queries) -> None:
    with django_assert_num_queries(0):
        assert people([], ["person-01"], 0) == []


def test_a_parameter_that_is_not_compared_as_it_is_is_refused(crowd) -> None:
    @prepared
    def beginning(name: str) -> QuerySet[User]:
        return User.objects.filter(username__startswith=name)

    with pytest.raises(ImproperlyConfigured, match="as it is"):
        beginning("person")
