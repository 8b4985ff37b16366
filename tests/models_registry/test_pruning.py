"""Of the registry's old history goes what nothing needs any more."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from common.models import Pruning
from common.reconcile import pruning
from hubs.models import Export, HubSource, HubSync
from hubs.pruning import RULES as HUB_RULES
from model_store.models import Check, Collection, CorruptBlob
from model_store.pruning import RULES as STORE_RULES
from models_registry.models import Upload
from models_registry.pruning import RULES
from tests import cast

AGE = timedelta(days=400)


def go(model: type) -> set[Any]:
    """The ids of what the rule of a model would delete now."""
    [rule] = [one for one in (*RULES, *HUB_RULES, *STORE_RULES) if one.model is model]
    return set(rule.due(timezone.now()).values_list("pk", flat=True))


def ended(kind: type, state: str, *, age: timedelta = AGE, **columns: Any) -> int:
    at = timezone.now() - age
    return kind.objects.create(**{"state": state, "ended_at": at, "next_at": None, **columns}).pk


def test_syncs_go_but_for_the_last_of_their_source_and_of_their_version(version, model):
    one, other = (HubSource.objects.create(model=model, endpoint="https://hub", repo_id=n) for n in "ab")
    first = ended(HubSync, "done", source=one, version=version)
    current = ended(HubSync, "current", source=one, version=version)
    failed = ended(HubSync, "failed", source=one)
    waiting = ended(HubSync, "failed", source=one, next_at=timezone.now())
    young = ended(HubSync, "failed", source=one, age=timedelta(days=80))
    ended(HubSync, "failed", source=other)
    assert go(HubSync) == {first, failed}
    assert {current, waiting, young}.isdisjoint(go(HubSync))


def test_exports_go_that_failed_or_were_done_again(version):
    there = {"version": version, "endpoint": "https://hub", "repo_id": "org/a", "is_held": False}
    first = ended(Export, "done", **there)
    ended(Export, "done", **there)
    failed = ended(Export, "failed", **there)
    ended(Export, "failed", **{**there, "is_held": True})
    ended(Export, "done", **{**there, "repo_id": "org/b"})
    ended(Export, "interrupted", **there)
    assert go(Export) == {first, failed}


def test_uploads_go_that_made_no_version(version, model):
    wanted = {"fingerprint": "", "part_bytes": 1, "file_count": 1, "size_bytes": 1, "new_bytes": 1}
    wanted |= {"model": model, "is_held": False}
    expired = ended(Upload, "expired", **wanted)
    ended(Upload, "expired", **{**wanted, "is_held": True})
    ended(Upload, "done", version=version, **wanted)
    ended(Upload, "open", **wanted)
    ended(Upload, "expired", age=timedelta(days=29), **wanted)
    assert go(Upload) == {expired}


@pytest.mark.django_db
def test_runs_over_the_store_go_but_for_the_last_and_findings_that_are_open():
    first, second, last = (ended(Check, "done", bytes_per_second=1) for _ in range(3))
    ended(Collection, "done", grace_seconds=1, age=timedelta(days=1))
    old = ended(Collection, "stopped", grace_seconds=1)
    ended(Collection, "done", grace_seconds=1)
    found = {"size": 1, "detail": "It is damaged."}
    repaired = ended(CorruptBlob, "repaired", found_by_id=first, sha256="a", **found)
    ended(CorruptBlob, "lost", found_by_id=second, sha256="b", **found)
    assert (go(Collection), go(CorruptBlob), go(Check)) == ({old}, {repaired}, set())
    CorruptBlob.objects.filter(pk=repaired).delete()
    assert go(Check) == {first}
    assert last not in go(Check)


def test_the_store_page_shows_what_is_kept_for_how_long(browser, library, settings):
    assert browser.get("/models/+store/kept/").status_code == 403
    keeper = Client()
    keeper.force_login(cast.person("root", superuser=True))
    assert "+store/kept/" in keeper.get("/models/+store/").content.decode()
    settings.SLIPWAY_KEEP_SYNCS_DAYS = 0
    at = (timezone.now() - timedelta(minutes=3)).isoformat()
    passes = {"hubs.export": {"removed": 1234, "removed_at": at, "problem": "It is locked."}}
    Pruning.objects.update_or_create(pk=1, defaults={"passes": passes})
    shown = " ".join(strip_tags(keeper.get("/models/+store/kept/").content.decode()).split())
    assert "SLIPWAY_KEEP_SYNCS_DAYS indefinitely 0 none" in shown
    assert "It is locked. SLIPWAY_KEEP_EXPORTS_DAYS 365 days 0 1,234" in shown
    assert all(str(rule.noun) in shown for rule in pruning.rules())
