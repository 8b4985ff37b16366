"""Retention rules and the store over REST."""

import pytest

from model_store.models import Check, Collection, CorruptBlob
from models_registry.models import Version
from models_registry.reconcilers.retention import RetentionReconciler
from models_registry.services import versions as version_services
from tests import cast
from tests.crash.harness import worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(db) -> cast.Api:
    return cast.Api(cast.token_of(cast.person("root", superuser=True)))


def test_a_rule_is_set_previewed_applied_and_stopped(library, actor, model, api) -> None:
    for fill in (1, 2, 3):
        library.ready(actor, model, fill=bytes([fill]))
    none = api.call("GET", "models/tiny/retention/preview/")
    assert (none.status_code, none.json()["detail"]) == (
        404,
        "tiny has no retention rule: it keeps every version.",
    )
    made = api.call("PUT", "models/tiny/retention/", {"keep_last": 1})
    assert (made.status_code, made.json()["daily"], made.json()["last_run"]) == (201, False, None)
    preview = api.call("GET", "models/tiny/retention/preview/").json()
    assert [(one["version"], one["goes"]) for one in preview["versions"]] == [
        ("v3", False),
        ("v2", True),
        ("v1", True),
    ]
    assert preview["versions"][0]["reasons"] == ["the newest"]
    assert 0 < preview["freed_bytes"] < preview["going_bytes"]
    stale = api.call("POST", "models/tiny/retention/apply/", {"preview": "0" * 16})
    assert stale.status_code == 409
    assert "Check the preview again" in stale.json()["detail"]
    body = {"preview": preview["preview"], "daily": True, "reason": "Full."}
    applied = api.call("POST", "models/tiny/retention/apply/", body)
    assert (applied.status_code, applied.json()["applying"]) == (202, True)
    worker([RetentionReconciler()], library.clock).sweep()
    after = api.call("GET", "models/tiny/retention/").json()
    assert (after["applying"], after["daily"]) == (False, True)
    assert after["last_run"]["deleted_versions"] == 2
    assert [one.name for one in Version.objects.live().filter(model=model)] == ["v3"]
    stopped = api.call("POST", "models/tiny/retention/stop/", {"reason": "Enough."})
    assert (stopped.status_code, stopped.json()["daily"]) == (200, False)


def test_a_rule_that_keeps_nothing_is_refused_at_its_field(model, api) -> None:
    answer = api.call("PUT", "models/tiny/retention/", {"keep_last": 0})
    assert answer.status_code in (400, 422)
    assert "keep_last" in answer.json()["errors"]


def test_the_store_tells_what_deduplication_saves_and_what_a_collection_reclaimed(
    library, actor, model, admin
) -> None:
    versions = [library.ready(actor, model, fill=bytes([fill])) for fill in (1, 2)]
    version_services.delete_version(actor=actor, version=versions[0])
    library.settle()
    now = admin.call("GET", "store/").json()
    assert now["version_bytes"] == now["bytes"] == versions[1].size_bytes
    assert (now["waiting_blobs"], now["dedup_factor"], now["last_collection"]) == (1, 1.0, None)
    begun = admin.call("POST", "store/collections/", {"grace_hours": 0, "reason": "Full."})
    assert (begun.status_code, begun.json()["state"]) == (202, "running")
    assert admin.call("POST", "store/collections/", {}).status_code == 409
    library.collected(Collection.objects.get())
    ended = admin.call("GET", f"store/collections/{begun.json()['id']}/").json()
    assert (ended["state"], ended["progress"], ended["deleted_blobs"]) == ("done", 1.0, 1)
    assert ended["deleted_bytes"] == now["waiting_bytes"]
    assert admin.call("GET", "store/").json()["waiting_blobs"] == 0


def test_findings_name_the_versions_they_touch_in_one_question(
    library, actor, model, admin, django_assert_num_queries
) -> None:
    versions = [library.ready(actor, model, fill=bytes([fill])) for fill in (1, 2)]
    check = Check.objects.create(asked_by_name="ada", bytes_per_second=1, state="done")
    for file in versions[1].files.order_by("path"):
        told = {"sha256": file.sha256, "size": file.size, "detail": "Gone.", "state": "lost"}
        CorruptBlob.objects.create(found_by=check, **told)
    admin.get("store/")
    for limit in (1, 100):
        with django_assert_num_queries(4):
            found = admin.get(f"store/findings/?limit={limit}").json()["results"]
    named = {one["sha256"]: one["versions"] for one in found}
    assert named[versions[1].files.get(path="config.json").sha256] == ["tiny:v1", "tiny:v2"]
    assert named[versions[1].files.get(path="model.safetensors").sha256] == ["tiny:v2"]
    assert admin.get("store/").json()["open_findings"] == 5
    assert admin.get("store/findings/?state=repaired").json()["results"] == []
    retried = admin.post(f"store/findings/{found[0]['id']}/retry/", {"reason": "Back."})
    assert (retried.status_code, retried.json()["state"]) == (202, "aside")
    assert admin.post(f"store/findings/{found[0]['id']}/retry/").status_code == 409
    assert admin.post("store/checks/").status_code == 202
    assert admin.post("store/checks/").status_code == 409
