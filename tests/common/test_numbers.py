"""Numbers by which people know rows have no gaps and are never given twice."""

import pytest
from django.db import transaction

from accounts.models import Team
from common.numbers import next_number

pytestmark = [pytest.mark.django_db, pytest.mark.every_database]


def make(name: str) -> Team:
    with transaction.atomic():
        return Team.objects.create(pk=next_number(Team), name=name)


def test_numbers_follow_each_other_after_the_rows_that_are_there():
    there = Team.objects.create(name="there").pk
    assert [make("a").pk, make("b").pk] == [there + 1, there + 2]


def test_a_refused_row_takes_no_number():
    first = make("a").pk
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Team.objects.create(pk=next_number(Team), name="b")
        _ = 1 / 0
    assert make("c").pk == first + 1


def test_the_number_of_a_deleted_row_is_not_given_again():
    row = make("a")
    number = row.pk
    row.delete()
    assert make("b").pk == number + 1
