"""Uploads and limits, as a signed-in person sees them."""

import pytest
from django.test import Client

from common.models import AuditRecord
from model_store.models import StorageQuota
from models_registry.models import Upload
from models_registry.services import uploads
from tests import cast
from tests.models_registry import builders as b
from tests.models_registry.test_uploads import Uploader

PART = {"HX-Request": "true"}


@pytest.fixture
def root(db) -> Client:
    client = Client()
    client.force_login(cast.person("root", superuser=True))
    return client


def test_a_models_page_says_how_to_push_and_lists_uploads_that_can_be_cancelled(
    browser, library, model, api, monkeypatch
) -> None:
    monkeypatch.setattr(uploads, "part_bytes_in", lambda _store: 64)
    page = browser.get("/models/tiny/").content.decode()
    assert "models push DIRECTORY --model tiny" in page
    assert 'aria-label="Uploads"' not in page
    assert "models push DIRECTORY --model tiny" in browser.get("/models/tiny/+import/").content.decode()
    uploader = Uploader(api, b.model_files())
    content = max(uploader.contents, key=lambda one: len(uploader.contents[one]))
    uploader.put(content, 0)
    page = browser.get("/models/tiny/", headers={**PART, "HX-Target": "listing"}).content.decode()
    assert "laptop:/work" in page
    assert "64\xa0B of" in page
    assert 'hx-trigger="every 1s' in page
    answer = browser.post(f"/models/tiny/+uploads/{uploader.begun['id']}/+cancel/", {"reason": "wrong"})
    assert answer.status_code == 302
    assert Upload.objects.get().reason == "By ada. wrong"
    assert 'aria-label="Uploads"' not in browser.get("/models/tiny/").content.decode()
    assert browser.post("/models/tiny/+uploads/99/+cancel/").status_code == 404


def test_an_administrator_limits_a_team_and_its_members_see_that(
    browser, root, library, actor, model
) -> None:
    library.ready(actor, model)
    path = "/settings/teams/vision/storage/"
    assert "Change the limit" not in browser.get(path).content.decode()
    refused = browser.post(f"{path}+limit/", {"limit_gb": "1", "reason": "mine"}, headers=PART)
    assert refused.status_code == 422
    for wrong in (
        {"limit_gb": "1"},
        {"limit_gb": "0.0000001", "reason": "x"},
        {"limit_gb": "-1", "reason": "x"},
    ):
        assert root.post(f"{path}+limit/", wrong, headers=PART).status_code == 422
    assert root.post(f"{path}+limit/", {"limit_gb": "0.000", "reason": "its share"}).status_code == 302
    assert StorageQuota.objects.get().limit_bytes == 0
    record = AuditRecord.objects.get(action="quota.set")
    assert (record.reason, record.actor, record.detail["limit_bytes"]) == ("its share", "root", 0)
    page = browser.get(path).content.decode()
    assert "The limit is reached." in page
    assert "its share" in page
    part = browser.get(path, headers={**PART, "HX-Target": "usage"}).content.decode()
    assert "of 0\xa0B" in part
    assert "<html" not in part
    assert "/settings/teams/vision/storage/" in browser.get("/settings/teams/vision/").content.decode()
    assert "vision" in root.get("/models/+store/teams/").content.decode()
    assert browser.get("/models/+store/teams/").status_code == 403
    assert root.post(f"{path}+limit/", {"limit_gb": "", "reason": "enough room"}).status_code == 302
    assert StorageQuota.objects.get().limit_bytes is None
