"""A value that a filter does not have is refused, not ignored."""

import pytest

from tests.cast import Api, api, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> Api:
    return api(person("root", superuser=True))


@pytest.mark.parametrize("query", ["people/?is_active=maybe", "webhooks/?enabled=1", "images/?shared=2"])
def test_what_is_neither_true_nor_false_is_refused(root, query):
    field = query.partition("?")[2].partition("=")[0]
    answer = root.get(query)
    assert (answer.status_code, answer.json()["errors"]) == (400, {field: ["Give one of: true, false."]})


@pytest.mark.parametrize(("given", "names"), [("true", ["root"]), ("True", ["root"]), ("false", [])])
def test_true_and_false_narrow_a_list(root, given, names):
    answer = root.get(f"people/?is_active={given}")
    assert [row["username"] for row in answer.json()["results"]] == names


def test_a_value_with_a_percent_sign_is_refused_like_any_other(root):
    assert root.get("images/?engine=%25s").json()["errors"]["engine"][0].startswith("Give one of: ")
