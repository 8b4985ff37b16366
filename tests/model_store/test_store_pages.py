"""Care of the store in the browser: retention, collections, and what checks have found."""

from django.test import Client

from model_store.models import Check, Collection, CorruptBlob
from models_registry.models import RetentionRule, Version
from models_registry.services import versions
from tests import cast
from tests.models_registry.pages import PART, text_of


def test_a_retention_rule_is_previewed_and_applied_in_the_browser(browser, library, actor, model):
    for fill in (1, 2):
        library.ready(actor, model, fill=bytes([fill]))
    address = "/models/tiny/+retention/"
    assert "No retention rule" in text_of(browser.get(address))
    assert browser.post(address, {"keep_last": "0", "keep_days": ""}).status_code == 422
    previewed = browser.post(address, {"keep_last": "1", "keep_days": "", "do": "preview"})
    assert "A preview, not saved: this rule keeps the newest version." in text_of(previewed)
    assert "older than the newest version" in text_of(previewed)
    assert not RetentionRule.objects.exists()
    assert browser.post(address, {"keep_last": "1", "keep_days": ""}).status_code == 302
    shown = browser.get(address)
    assert "A draft: it keeps the newest version." in text_of(shown)
    assert "older than the newest version; no alias, service or release needs it" in text_of(shown)
    given = {"preview": shown.context["preview"].fingerprint, "reason": "Too many."}
    assert "changed since the preview" in text_of(
        browser.post(f"{address}apply/", given | {"preview": "x"}, headers=PART)
    )
    assert browser.post(f"{address}apply/", given, headers=PART).status_code == 204
    assert "Being applied by ada: 0 of 1 version deleted" in text_of(browser.get(address))
    library.retain()
    applied = text_of(browser.get(address))
    assert "Last applied" in applied
    assert "deleted. A collection frees what nothing else needs." in applied
    assert [one.name for one in Version.objects.live().filter(model=model)] == ["v2"]
    assert browser.post(f"{address}delete/", {"reason": ""}, headers=PART).status_code == 204
    assert "No retention rule" in text_of(browser.get(address))


def test_the_store_is_shown_and_collected_by_those_who_look_after_it(browser, library, actor, model):
    version = library.ready(actor, model)
    assert browser.get("/models/+store/").status_code == 403
    assert "+store" not in text_of(browser.get("/models/"))
    keeper = Client()
    keeper.force_login(cast.person("root", superuser=True))
    assert "+store" in text_of(keeper.get("/models/"))
    versions.delete_version(actor=actor, version=version)
    library.settle()
    shown = text_of(keeper.get("/models/+store/"))
    assert "5 files, kept for 24 h" in shown
    assert "No collection yet" in shown
    given = {"grace_hours": "0", "reason": "Full."}
    refused = browser.post("/models/+store/collect/", given, headers=PART)
    assert "Ask one of its administrators" in text_of(refused)
    assert keeper.post("/models/+store/collect/", given, headers=PART).status_code == 204
    library.collected(Collection.objects.get())
    shown = text_of(keeper.get("/models/+store/"))
    assert "0 files, kept for 24 h" in shown
    assert "5 files</div>" in shown


def test_a_damaged_version_says_so_and_what_the_store_found(browser, library, actor, model):
    version = library.ready(actor, model)
    check = Check.objects.create(asked_by_name="ada", bytes_per_second=1, state="done", damaged=1)
    sha256 = version.files.get(path="config.json").sha256
    lost = {"size": 7, "detail": "It is not in the store.", "state": "lost", "reason": "No source has it."}
    corrupt_blob = CorruptBlob.objects.create(found_by=check, sha256=sha256, **lost)
    shown = text_of(browser.get("/models/tiny/v1/"))
    assert "it cannot be released" in shown
    assert "nothing more is being done about them" in shown
    assert "being fetched again" not in shown
    assert "/models/+store/" not in shown
    CorruptBlob.objects.update(state="aside")
    shown = text_of(browser.get("/models/tiny/v1/"))
    assert "being fetched again" in shown
    assert "nothing more is being done" not in shown
    CorruptBlob.objects.update(state="lost")
    keeper = Client()
    keeper.force_login(cast.person("root", superuser=True))
    assert 'href="/models/+store/"' in text_of(keeper.get("/models/tiny/v1/"))
    shown = text_of(keeper.get("/models/+store/"))
    assert "1 damaged, 0 missing" in shown
    assert 'href="/models/tiny/v1/"' in shown
    address = f"/models/+store/repair/{corrupt_blob.pk}/"
    assert keeper.post(address, {"reason": ""}, headers=PART).status_code == 204
    assert "only what is lost" in text_of(keeper.post(address, {"reason": ""}, headers=PART))
    assert keeper.post("/models/+store/check/", {"reason": "Now."}, headers=PART).status_code == 204
    assert "Reading the store" in text_of(keeper.get("/models/+store/"))
