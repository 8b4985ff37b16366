"""Aliases over REST, and what they remember."""

import pytest

from common.models import AuditRecord

pytestmark = pytest.mark.django_db


def test_an_alias_is_put_moved_and_deleted_and_remembers_all_of_it(api, library, model) -> None:
    for name, fill in (("one", b"\x01"), ("two", b"\x02")):
        library.push(api, library.directory(name, fill))
    made = api.put("models/tiny/aliases/production/", {"version": "v1", "reason": "First release."})
    assert made.status_code == 201
    assert (made.json()["version"], made.json()["moved_by"]) == ("v1", "ada")
    moved = api.put(
        "models/tiny/aliases/production/", {"version": "v2", "reason": "Better."}, If_Match=made["ETag"]
    )
    assert (moved.status_code, moved.json()["version"]) == (200, "v2")
    late = api.put("models/tiny/aliases/production/", {"version": "v1"}, If_Match=made["ETag"])
    assert late.status_code == 412
    assert api.get("models/tiny/").json()["aliases"] == [{"name": "production", "version": "v2"}]
    assert api.get("models/tiny/versions/v2/").json()["aliases"] == ["production"]
    assert api.delete("models/tiny/aliases/production/").status_code == 204
    assert api.get("models/tiny/aliases/production/").status_code == 404
    rows = api.get("models/tiny/aliases/production/history/").json()["results"]
    assert [(row["from_version"], row["to_version"], row["by"], row["reason"]) for row in rows] == [
        ("v2", None, "ada", ""),
        ("v1", "v2", "ada", "Better."),
        (None, "v1", "ada", "First release."),
    ]
    assert api.get("models/tiny/history/").json()["results"] == rows
    digests = [api.get(f"models/tiny/versions/{name}/").json()["digest"] for name in ("v2", "v1")]
    assert [row["to_digest"] for row in rows] == [None, *digests]
    for row, version in ((rows[2], "v1"), (rows[1], "v2")):
        found = api.get(f"models/tiny/history/?at={row['at'].replace('+', '%2B')}").json()["results"]
        assert [move["to_version"] for move in found] == [version]
    assert list(
        AuditRecord.objects.filter(action__startswith="alias")
        .order_by("seq")
        .values_list("action", flat=True)
    ) == ["alias.move", "alias.move", "alias.delete"]


def test_putting_an_alias_where_it_points_already_changes_nothing(api, library, model) -> None:
    library.push(api, library.directory())
    api.put("models/tiny/aliases/production/", {"version": "v1", "reason": "First."})
    again = api.put("models/tiny/aliases/production/", {"version": "v1", "reason": "Second."})
    assert (again.status_code, again.json()["reason"]) == (200, "First.")
    assert len(api.get("models/tiny/aliases/production/history/").json()["results"]) == 1


def test_aliases_that_cannot_be_put_say_why(api, library, model) -> None:
    library.push(api, library.directory())
    api.post("models/tiny/versions/", {"source": str(library.root / "model")})
    for alias, body, status in (
        ("v2", {"version": "v1"}, 400),
        ("Production", {"version": "v1"}, 400),
        ("production", {}, 400),
        ("production", {"version": "v9"}, 400),
        ("production", {"version": "v2"}, 409),
    ):
        assert api.put(f"models/tiny/aliases/{alias}/", body).status_code == status, (alias, body)
    assert api.get("models/tiny/aliases/").json()["results"] == []
