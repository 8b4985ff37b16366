"""Models, versions and aliases over REST, as people and CI use them."""

import asyncio
import json
import pickle

import orjson
import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.db.models import QuerySet

from models_registry import references as uses
from models_registry.api.views import _version_events
from models_registry.models import Model, Version
from models_registry.services import catalogue
from tests import cast
from tests.models_registry import builders as b
from tests.models_registry.uses import used_by

pytestmark = pytest.mark.django_db


def test_a_model_is_created_read_changed_and_deleted(api, library) -> None:
    made = api.post("models/", {"name": "tiny", "task": "text-generation", "description": "Small."})
    assert made.status_code == 201
    assert made["Location"] == "/api/v1/models/tiny/"
    assert made.json() == {
        "name": "tiny",
        "team": "vision",
        "task": "text-generation",
        "description": "Small.",
        "latest_version": None,
        "aliases": [],
        "protected_aliases": [],
        "version_count": 0,
        "size_bytes": 0,
        "served": [],
        "created_at": made.json()["created_at"],
        "created_by": "ada",
    }
    changed = api.patch("models/tiny/", {"description": "Very small."}, If_Match=made["ETag"])
    assert changed.json()["description"] == "Very small."
    late = api.patch("models/tiny/", {"task": "x"}, If_Match=made["ETag"])
    assert late.status_code == 412
    assert api.delete("models/tiny/", If_Match=changed["ETag"]).status_code == 204
    assert api.get("models/tiny/").status_code == 404
    assert api.post("models/", {"name": "tiny"}).status_code == 201


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "name"),
        ({"name": "No Slug"}, 400, "name"),
        ({"name": "x" * 96}, 400, "name"),
        ({"name": "new", "team": "nobody"}, 400, "team"),
        ({"name": "new", "description": "x" * 10_001}, 400, "description"),
        ({"name": "tiny"}, 409, None),
    ],
)
def test_models_that_cannot_be_created_say_why(
    api, model, body: dict, status: int, field: str | None
) -> None:
    answer = api.post("models/", body)
    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"
    if field:
        assert field in answer.json()["errors"]


def test_one_who_writes_for_several_teams_says_which(db) -> None:
    api = cast.api(cast.person("max", vision="developer", speech="developer", audio="viewer"))
    answer = api.post("models/", {"name": "new"})
    assert answer.json()["errors"]["team"] == ["Say which team will own it: speech, vision."]
    assert api.post("models/", {"name": "new", "team": "speech"}).json()["team"] == "speech"
    assert api.post("models/", {"name": "other", "team": "audio"}).status_code == 403


def test_a_version_goes_from_202_to_ready_with_its_files(api, library, model) -> None:
    directory = library.directory()
    answer = api.post("models/tiny/versions/", {"source": str(directory), "message": "First."})
    assert answer.status_code == 202
    assert answer["Location"] == "/api/v1/models/tiny/versions/v1/"
    begun = answer.json()
    assert (begun["name"], begun["state"], begun["digest"], begun["files"]) == ("v1", "importing", None, [])
    library.settle()
    ready = api.get("models/tiny/versions/v1/").json()
    assert ready["state"] == "ready"
    assert [file["path"] for file in ready["files"]] == sorted(b.model_files())
    assert set(ready["files"][0]) == {"path", "size", "sha256", "format"}
    assert ready["scan"]["verdict"] == "passed"
    assert ready["lineage"] == {"parent": None}
    assert ready["signature"] is None
    assert ready["progress"]["bytes_done"] == ready["size_bytes"]
    assert ready["source"]["uri"] == directory.as_uri()
    assert set(ready["source"]) == {
        "kind", "uri", "endpoint", "commit", "allow_patterns", "ignore_patterns", "uploaded_by", "address",
        "origin",
    }  # fmt: skip
    assert [move["to_state"] for move in ready["history"]] == ["importing", "ready"]
    assert ready["config"]["model_type"] == "llama"
    for reference in (ready["digest"], ready["digest"][:12]):
        assert api.get(f"models/tiny/versions/{reference}/").json()["name"] == "v1"
    assert api.get(f"models/tiny/versions/{ready['digest'][:11]}/").status_code == 404
    shown = api.get("models/tiny/").json()
    assert shown["latest_version"]["name"] == "v1"
    assert shown["size_bytes"] == ready["size_bytes"]


def test_a_refused_version_says_why_and_can_be_retried(api, library, model) -> None:
    evil = library.directory() / "evil.pkl"
    evil.write_bytes(pickle.dumps(1))
    version = library.push(api, library.root / "model")
    assert version["state"] == "refused"
    assert "evil.pkl" in version["reason"]
    assert version["scan"]["refusals"][0]["path"] == "evil.pkl"
    evil.unlink()
    answer = api.post("models/tiny/versions/v1/retry/", {"reason": "Removed the pickle."})
    assert (answer.status_code, answer.json()["state"]) == (202, "importing")
    library.settle()
    assert api.get("models/tiny/versions/v1/").json()["state"] == "ready"
    assert api.post("models/tiny/versions/v1/retry/").status_code == 409


def test_an_import_is_cancelled(api, library, model) -> None:
    api.post("models/tiny/versions/", {"source": str(library.directory())})
    answer = api.post("models/tiny/versions/v1/cancel/", {"reason": "Wrong one."})
    assert (answer.status_code, answer.json()["state"]) == (202, "failed")
    assert answer.json()["reason"] == "Cancelled by ada. Wrong one."
    assert api.post("models/tiny/versions/v1/cancel/").status_code == 409


@pytest.mark.parametrize("source", ["/etc", "hf://../b", "relative", "", None, 7, "file:///etc/passwd"])
def test_sources_outside_are_refused_at_once(api, library, model, source) -> None:
    answer = api.post("models/tiny/versions/", {"source": source})
    assert answer.status_code == 400
    assert "source" in answer.json()["errors"]
    assert not Version.objects.exists()


def test_bodies_of_the_wrong_shape_are_refused(api, library, model) -> None:
    source = str(library.directory())
    for body in (
        {"source": source, "version": "deadbeefdead"},
        {"source": source, "lineage": ["no object"]},
        {"source": source, "lineage": {"parent": "v9"}},
        {"source": source, "ignore_patterns": "*.bin"},
    ):
        answer = api.post("models/tiny/versions/", body)
        assert answer.status_code == 400, body
        assert answer.json()["errors"]


def test_a_creation_repeated_with_its_idempotency_key_happens_once(api, library, model) -> None:
    body = {"source": str(library.directory())}
    first = api.post("models/tiny/versions/", body, Idempotency_Key="k1")
    again = api.post("models/tiny/versions/", body, Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json()["name"] == "v1"
    assert Version.objects.count() == 1
    assert (
        api.post("models/tiny/versions/", {**body, "message": "x"}, Idempotency_Key="k1").status_code == 409
    )


def test_what_is_in_use_is_not_deleted(api, library, model, monkeypatch) -> None:
    library.push(api, library.directory())
    api.put("models/tiny/aliases/production/", {"version": "v1"})
    refused = api.delete("models/tiny/versions/v1/")
    assert (refused.status_code, "production" in refused.json()["detail"]) == (409, True)
    assert "production" in api.delete("models/tiny/").json()["detail"]
    api.delete("models/tiny/aliases/production/")
    with monkeypatch.context() as while_served:
        while_served.setattr(uses, "_uses", [used_by(Version.objects.get(), "service chat (stable)")])
        assert "service chat (stable)" in api.delete("models/tiny/versions/v1/").json()["detail"]
        assert "service chat (stable)" in api.delete("models/tiny/").json()["detail"]
        assert api.get("models/tiny/").json()["served"] == ["service chat (stable)"]
        assert api.get("models/tiny/versions/v1/").json()["served"] == ["service chat (stable)"]
    assert api.delete("models/tiny/versions/v1/").status_code == 204
    assert api.get("models/tiny/versions/v1/").status_code == 404
    library.settle()
    library.collect()
    assert library.stored() == set()


def test_viewers_read_and_strangers_do_not_even_that(api, library, model) -> None:
    library.push(api, library.directory())
    api.put("models/tiny/aliases/production/", {"version": "v1"})
    viewer, stranger = (
        cast.api(cast.person("vic", vision="viewer")),
        cast.api(cast.person("sue", other="admin")),
    )
    reads = [
        "models/tiny/", "models/tiny/versions/", "models/tiny/versions/v1/", "models/tiny/aliases/",
        "models/tiny/aliases/production/", "models/tiny/aliases/production/history/", "models/tiny/history/",
        "models/tiny/versions/v1/compare/v1/",
    ]  # fmt: skip
    for path in reads:
        assert viewer.get(path).status_code == 200, path
        assert stranger.get(path).status_code == 404, path
        assert cast.Api().get(path).status_code == 401, path
    assert stranger.get("models/").json()["results"] == []
    writes = [
        ("patch", "models/tiny/", {"task": "x"}),
        ("delete", "models/tiny/", None),
        ("post", "models/tiny/versions/", {"source": str(library.root / "model")}),
        ("delete", "models/tiny/versions/v1/", None),
        ("post", "models/tiny/versions/v1/retry/", None),
        ("post", "models/tiny/versions/v1/cancel/", None),
        ("put", "models/tiny/aliases/production/", {"version": "v1"}),
        ("delete", "models/tiny/aliases/production/", None),
    ]
    read_only = cast.api(cast.person("rob", vision="developer"), scopes=["read"])
    for method, path, body in writes:
        assert viewer.call(method.upper(), path, body).status_code == 403, path
        assert read_only.call(method.upper(), path, body).status_code == 403, path
        assert stranger.call(method.upper(), path, body).status_code == 404, path
    assert viewer.post("models/", {"name": "mine"}).status_code in (400, 403)


def test_two_versions_are_compared_by_files_and_config(api, library, model) -> None:
    library.push(api, library.directory())
    other = library.directory("other", b"\x02")
    (other / "README.md").unlink()
    (other / "chat_template.jinja").write_text("{{ messages }}")
    (other / "config.json").write_bytes(orjson.dumps({**b.CONFIG, "hidden_size": 128, "new": 1}))
    library.push(api, other)
    found = api.get("models/tiny/versions/v1/compare/v2/").json()
    assert (found["before"], found["after"]) == ("tiny:v1", "tiny:v2")
    assert {file["path"]: file["change"] for file in found["files"]} == {
        ".gitattributes": "same",
        "README.md": "removed",
        "chat_template.jinja": "added",
        "config.json": "changed",
        "model.safetensors": "changed",
        "tokenizer.json": "same",
    }
    assert found["bytes"]["added"] == 14
    assert found["bytes"]["removed"] == len(b.model_files()["README.md"])
    assert [(key["key"], key["change"], key["before"], key["after"]) for key in found["config"]] == [
        ("hidden_size", "changed", 64, 128),
        ("new", "added", None, 1),
    ]


@pytest.mark.parametrize("number", [10**20, -(10**20)])
def test_a_version_with_a_number_beyond_64_bits_is_read_compared_and_tagged(
    api, library, model, number: int
) -> None:
    odd = {**b.CONFIG, "max_position_embeddings": number, "quantization_config": {"bits": number}}
    (library.directory() / "config.json").write_text(json.dumps(odd))
    assert library.push(api, library.root / "model")["context_length"] is None
    # PostgreSQL gives a large float back as an integer, also to rows of earlier imports.
    QuerySet(Version).update(config=odd)
    answers = [
        api.get("models/tiny/versions/v1/"),
        api.get("models/tiny/versions/v1/compare/v1/"),
        api.post("models/tiny/versions/v1/tags/", {"add": ["odd"]}),
        api.post("models/tiny/versions/v1/archive/"),
        api.post("models/tiny/versions/v1/restore/", None, Idempotency_Key="k1"),
    ]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert answers[0].json()["config"]["quantization_config"]["bits"] == number


def test_lists_page_filter_and_search(api, library, model) -> None:
    for name in ("chat", "embedder", "whisper"):
        api.post("models/", {"name": name, "task": f"task-{name}", "description": f"About {name}s."})
    library.push(api, library.directory())
    api.put("models/tiny/aliases/champion/", {"version": "v1"})

    def found(query: str) -> list[str]:
        return [row["name"] for row in api.get(f"models/?{query}").json()["results"]]

    assert found("") == ["chat", "embedder", "tiny", "whisper"]
    assert found("sort=-name") == ["whisper", "tiny", "embedder", "chat"]
    assert found("q=EMBED") == ["embedder"]
    assert found("q=task-chat") == ["chat"]
    assert found("q=whispers") == ["whisper"]
    assert found("q=champ") == ["tiny"]
    assert found("q=llamafor") == ["tiny"]
    assert found("q=vision+champ") == ["tiny"]
    assert found("q=vision+nothing") == []
    assert found("task=task-chat") == ["chat"]
    assert found("team=vision&q=tiny") == ["tiny"]
    assert "There is no such team" in api.get("models/?team=other").json()["errors"]["team"][0]
    assert api.get("models/?query=x").status_code == 400
    first = api.get("models/?limit=3").json()
    assert api.get(first["next"].partition("/api/v1/")[2]).json()["results"][0]["name"] == "whisper"
    api.post("models/tiny/versions/", {"source": str(library.root / "model")})
    states = api.get("models/tiny/versions/?state=importing").json()["results"]
    assert [version["name"] for version in states] == ["v2"]
    assert api.get("models/tiny/versions/?state=unheard").status_code == 400


def test_a_model_in_a_list_looks_as_it_does_alone(api, library, model) -> None:
    library.push(api, library.directory())
    api.put("models/tiny/aliases/production/", {"version": "v1"})
    api.post("models/", {"name": "zero"})
    for shown in api.get("models/").json()["results"]:
        assert api.get(f"models/{shown['name']}/").json() == shown


def test_lists_take_the_same_number_of_queries_for_any_number_of_rows(
    api, library, actor, model, django_assert_num_queries
) -> None:
    def measured(path: str, count: int) -> None:
        with django_assert_num_queries(count):
            assert api.get(path).status_code == 200

    version = library.push(api, library.directory())
    api.put("models/tiny/aliases/production/", {"version": "v1"})
    for path, count in (("models/", 5), ("models/tiny/versions/", 8), ("models/tiny/aliases/", 4)):
        measured(path, count)
    for number in range(5):
        catalogue.create_model(actor=actor, team=cast.team("vision"), name=f"other-{number}")
        library.push(api, library.directory())
        api.put(f"models/tiny/aliases/a{number}/", {"version": "v1"})
    for path, count in (("models/", 5), ("models/tiny/versions/", 8), ("models/tiny/aliases/", 4)):
        measured(path, count)
    assert version["name"] == "v1"


def test_the_largest_page_is_answered_however_large_a_statement_a_database_takes(api, model) -> None:
    many = [Model(team=model.team, name=f"m{number:04}") for number in range(1_100)]
    made = Model.objects.bulk_create(many)
    versions = Version.objects.bulk_create(
        [Version(model=one, number=1, name="v1", is_held=False) for one in made], batch_size=500
    )
    for version in versions:
        version.model.latest = version
    Model.objects.bulk_update(made, ["latest"], batch_size=200)
    page = api.get("models/?limit=1000").json()
    assert len(page["results"]) == 1000
    assert page["results"][0]["latest_version"]["name"] == "v1"


def test_a_version_that_repeats_an_earlier_one_says_so(api, library, model) -> None:
    library.push(api, library.directory())
    repeated = library.push(api, library.directory("copy"))
    assert repeated["same_content_as"] == "v1"
    listed = api.get("models/tiny/versions/").json()["results"]
    assert [version["same_content_as"] for version in listed] == ["v1", ""]


def test_an_import_is_followed_by_events_until_it_is_over(api, library, model) -> None:
    version = Version.objects.get(
        number=api.post("models/tiny/versions/", {"source": str(library.directory())}).json()["number"]
    )
    begun = _version_events(version.pk, "")
    assert [(event.data["state"], event.last) for event in begun] == [("importing", False)]
    assert _version_events(version.pk, begun[0].id) == []
    library.settle()
    over = _version_events(version.pk, begun[0].id)
    assert [(event.data["state"], event.last) for event in over] == [("ready", True)]


@pytest.mark.django_db(transaction=True)
def test_the_event_stream_of_a_finished_import_tells_its_state_and_ends(library, ada) -> None:
    api = cast.api(ada)
    api.post("models/", {"name": "tiny"})
    library.push(api, library.directory())

    async def all_of(response) -> bytes:
        try:
            return b"".join([chunk async for chunk in response.streaming_content])
        finally:
            await sync_to_async(connections.close_all)()

    response = api.get("models/tiny/versions/v1/events/")
    assert response["Content-Type"] == "text/event-stream"
    assert b'"state":"ready"' in asyncio.run(all_of(response))


def test_the_admin_shows_raw_rows_to_read_only(client, library, actor, model) -> None:
    library.ready(actor, model)
    client.force_login(cast.person("root", superuser=True))
    for name in ("model", "version", "versionfile", "versionmove", "alias", "aliasmove"):
        assert client.get(f"/admin/models_registry/{name}/").status_code == 200
        assert client.get(f"/admin/models_registry/{name}/add/").status_code == 403
