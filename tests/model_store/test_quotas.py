"""Quotas of teams: refused before the first byte, with figures, whoever comes first."""

import pytest

from common.actor import Actor
from hubs.services import syncs
from model_store import quotas
from model_store import services as model_store
from model_store.models import StorageQuota
from models_registry.models import Upload, Version, VersionFile
from models_registry.services import imports
from tests import cast
from tests.clusters.world import version_of
from tests.models_registry import builders as b
from tests.models_registry.conftest import do_here, job_of
from tests.models_registry.test_uploads import Uploader, announced

pytestmark = pytest.mark.django_db
FILES = b.model_files()
SIZE = sum(map(len, FILES.values()))


def limit(limit_bytes: int | None) -> None:
    model_store.set_quota(
        actor=Actor.system("test"), team=cast.team("vision"), limit_bytes=limit_bytes, reason="its share"
    )


def test_an_upload_reserves_its_room_and_the_next_one_is_refused_with_figures(library, model, api) -> None:
    limit(SIZE + 1_000)
    first = api.post("models/tiny/uploads/", announced(FILES))
    assert first.status_code == 201
    refused = api.post("models/tiny/uploads/", announced({"notes.txt": b"n" * 1_001}))
    assert refused.status_code == 409
    for figure in (f"{SIZE + 1_000:,}", f"{SIZE:,}", "1,001", "1 too many"):
        assert figure in refused.json()["detail"]
    assert Upload.objects.count() == 1
    assert len(list((library.store.root / "uploads").iterdir())) == 1
    assert api.post("models/tiny/uploads/", announced({"notes.txt": b"n" * 1_000})).status_code == 201
    shown = api.get("teams/vision/storage/").json()
    assert (shown["held_bytes"], shown["reserved_bytes"]) == (0, SIZE + 1_000)
    api.post(f"models/tiny/uploads/{first.json()['id']}/cancel/", {})
    assert api.get("teams/vision/storage/").json()["reserved_bytes"] == 1_000


def test_what_an_upload_has_reserved_is_its_own(library, model, api) -> None:
    limit(SIZE)
    uploader = Uploader(api, FILES)
    for content in uploader.missing:
        assert uploader.put(content).status_code == 200
    assert uploader.complete().status_code == 202
    library.settle()
    assert Version.objects.get().state == "ready"
    shown = api.get("teams/vision/storage/").json()
    assert (shown["held_bytes"], shown["reserved_bytes"]) == (SIZE, 0)


def test_an_import_beyond_the_limit_copies_nothing_and_what_the_team_holds_is_free(
    library, actor, model, api
) -> None:
    limit(SIZE)
    library.ready(actor, model)
    again = library.push(api, library.directory("copy"))
    assert (again["state"], again["name"]) == ("ready", "v2")
    before = library.stored()
    more = library.push(api, b.write(library.root / "more", FILES | {"notes.txt": b"n" * 2_000_000}))
    assert more["state"] == "failed"
    assert f"Team vision may hold {SIZE:,} bytes. It holds {SIZE:,}" in more["reason"]
    assert more["scan"]["copied_bytes"] == 0
    assert library.stored() == before
    limit(None)
    assert api.post("models/tiny/versions/v3/retry/", {}).status_code == 202
    library.settle()
    assert Version.objects.get(name="v3").state == "ready"


def test_all_teams_are_told_at_once_and_each_content_of_a_team_counts_once(
    model, api, django_assert_num_queries
) -> None:
    speech, vision = cast.team("speech"), cast.team("vision")
    versions = [version_of(speech, f"talk:{name}") for name in ("v1", "v2")]
    versions += [version_of(vision, "look:v1")]
    versions += [Version.objects.create(model=versions[0].model, number=3, name="v3", state="failed")]
    held = ((0, "a", 10), (1, "a", 10), (1, "b", 10), (2, "a", 10), (3, "c", 1_000))
    VersionFile.objects.bulk_create(
        VersionFile(version=versions[index], path=name, size=size, sha256=name * 64, format="text")
        for index, name, size in held
    )
    assert api.post("models/tiny/uploads/", announced({"notes.txt": b"note"})).status_code == 201
    limit(50)
    with django_assert_num_queries(5):
        told = quotas.storages_of([vision, speech])
    assert [(one.team, one.held_bytes, one.reserved_bytes, one.limit_bytes) for one in told] == [
        (vision, 10, 4, 50),
        (speech, 20, 0, None),
    ]
    root = cast.api(cast.person("root", superuser=True))
    page = root.get("store/teams/?limit=1").json()
    assert [(one["team"], one["held_bytes"]) for one in page["results"]] == [("speech", 20)]
    assert [
        one["team"] for one in root.get(page["next"].removeprefix("http://testserver")).json()["results"]
    ] == ["vision"]


def test_of_two_imports_that_find_room_for_one_the_later_one_is_refused(library, actor, model) -> None:
    limit(SIZE + 3_000)
    runner = library.jobs_do(None)
    for name in ("one", "two"):
        b.write(library.root / name, FILES | {"notes.txt": name.encode() * 1_000})
        imports.import_version(actor=actor, model=model, source=str(library.root / name))
    library.worker().sweep()
    assert len(runner.live) == 2
    for spec in runner.started:
        runner.finish(spec.name, do_here(job_of(spec)))
    library.settle()
    states = sorted(Version.objects.values_list("state", flat=True))
    assert states == ["failed", "ready"]
    assert "too many" in Version.objects.get(state="failed").reason
    assert quotas.storage_of(cast.team("vision")).held_bytes <= SIZE + 3_000


def test_a_sync_beyond_the_limit_fetches_nothing(hubs, source, actor) -> None:
    limit(10)
    sync = hubs.synced(source, actor)
    assert sync.state == "failed"
    assert "Team vision may hold 10 bytes" in sync.reason
    assert hubs.server.sent.total() == 0
    limit(None)
    syncs.SYNCS.ask("retry", actor=actor, transfer=sync)
    hubs.settle()
    assert Version.objects.get().state == "ready"


def test_only_administrators_of_the_installation_set_a_limit_and_they_say_why(api, library, model) -> None:
    body = {"limit_bytes": 5, "reason": "its share"}
    assert api.put("teams/vision/storage/", body).status_code == 403
    root = cast.api(cast.person("root", superuser=True))
    assert root.put("teams/vision/storage/", {"limit_bytes": 5, "reason": " "}).status_code == 400
    assert root.put("teams/vision/storage/", body).json()["limit_bytes"] == 5
    assert api.get("teams/vision/storage/").json()["reason"] == "its share"
    assert root.put("teams/nobody/storage/", body).status_code == 404
    assert StorageQuota.objects.get().changed_by_name == "root"
