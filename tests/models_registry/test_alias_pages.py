"""Aliases in the browser: moved, protected, and remembered."""

import pytest
from django.test import Client
from django.utils.html import strip_tags

from models_registry.errors import UnknownVersion
from models_registry.models import AliasMove
from models_registry.selectors import versions
from models_registry.services import aliases
from models_registry.services import versions as version_services
from tests import cast
from tests.models_registry.pages import PART, text_of


def test_an_alias_moves_with_its_reason_and_remembers_where_it_was(browser, library, actor, model):
    library.ready(actor, model)
    library.ready(actor, model, fill=b"\x02")
    for version, why in (("v1", "first good one"), ("v2", "twice as good")):
        given = {"alias": "production", "version": version, "reason": why}
        assert browser.post("/models/tiny/+aliases/move/", given, headers=PART).status_code == 204
    page = text_of(browser.get("/models/tiny/+aliases/?alias=production"))
    assert "first good one" in page
    assert "twice as good" in page
    nothing = browser.post(
        "/models/tiny/+aliases/move/", {"alias": "production", "version": "v1"}, headers=PART
    )
    assert nothing.status_code == 422
    reads_like_version = {"alias": "v3", "version": "v1", "reason": "x"}
    refused = browser.post("/models/tiny/+aliases/move/", reads_like_version, headers=PART)
    assert "reads like a version" in text_of(refused)


def test_the_aliases_page_tells_what_was_in_force_at_a_moment(browser, library, actor, model):
    first, second = library.ready(actor, model), library.ready(actor, model, "two", b"\x02")
    for version in (first, second):
        aliases.set_alias(
            actor=actor, model=model, alias="production", version=version, reason=f"for {version}"
        )
    AliasMove.objects.filter(to_version=first).update(at="2026-03-01T00:00:00Z")
    then = text_of(
        browser.get("/models/tiny/+aliases/?at=2026-03-03T14:00", headers={**PART, "HX-Target": "listing"})
    )
    assert "for tiny:v1" in then
    assert "At 2026-03-03 14:00:00 UTC production was v1, since 2026-03-01 00:00:00 UTC" in strip_tags(then)
    assert "for tiny:v2" not in then
    before = text_of(browser.get("/models/tiny/+aliases/?alias=production&at=2026-02-01T00:00"))
    assert "Nothing in force" in before
    assert "Clear filters" in before


def test_the_history_of_aliases_is_found_by_a_part_of_the_name(browser, library, actor, model):
    version = library.ready(actor, model)
    for alias in ("production", "staging"):
        aliases.set_alias(actor=actor, model=model, alias=alias, version=version, reason=f"for {alias}")

    def shown(query: str) -> str:
        return text_of(
            browser.get(f"/models/tiny/+aliases/?{query}", headers={**PART, "HX-Target": "listing"})
        )

    assert "for production" in shown("alias=PROD")
    assert "for staging" not in shown("alias=prod")
    unlike = shown("alias=canary")
    assert "No alias like this" in unlike
    assert "Clear filters" in unlike
    nonsense = shown("at=nonsense")
    assert "In force at: Give a time such as" in nonsense
    assert "for staging" in nonsense


def test_an_alias_that_stays_where_it_is_says_so(browser, library, actor, model):
    version = library.ready(actor, model)
    given = {"alias": "production", "version": version.name, "reason": "good"}
    moved = browser.post("/models/tiny/+aliases/move/", given, headers=PART)
    assert "tiny:production is v1 now." in moved["HX-Trigger"]
    stays = browser.post("/models/tiny/+aliases/move/", given | {"reason": "better"}, headers=PART)
    assert "tiny:production is v1 already; nothing changed." in stays["HX-Trigger"]
    assert AliasMove.objects.count() == 1


def test_protection_is_set_on_the_models_settings_by_those_who_may(browser, library, actor, model):
    version = library.ready(actor, model)
    page = "/models/tiny/+settings/"
    assert "disabled" in text_of(browser.get(page)).split('name="protected_aliases"')[1].split(">")[0]
    bo = Client()
    bo.force_login(cast.person("bo", vision="approver"))
    assert bo.post(page, {"protected_aliases": "production\nstaging", "revision": 1}).status_code == 302
    model.refresh_from_db()
    assert model.protected_aliases == ["production", "staging"]
    wish = {"alias": "production", "version": version.name, "reason": "y"}
    refused = browser.post("/models/tiny/+aliases/move/", wish, headers=PART)
    assert "aliases.protected" in text_of(refused)
    assert bo.post("/models/tiny/+aliases/move/", wish).status_code == 302
    assert "protected</span>" in text_of(browser.get("/models/tiny/+aliases/"))


def test_what_an_alias_named_once_is_told_though_the_version_is_deleted(browser, library, actor, model):
    first, second = (library.ready(actor, model, fill=fill) for fill in (b"\x01", b"\x02"))
    for version in (first, second):
        aliases.set_alias(actor=actor, model=model, alias="production", version=version)
    version_services.delete_version(actor=actor, version=first, reason="Nobody asks for it.")
    page = text_of(browser.get("/models/tiny/+aliases/"))
    assert first.digest[:12] in page
    assert "deleted since" in page
    assert 'href="/models/tiny/v1/"' in page
    told = text_of(browser.get("/models/tiny/v1/"))
    assert "its name stays taken" in told
    assert "ada: Nobody asks for it." in told
    assert "model.safetensors" in told
    assert "ask-delete" not in told
    assert "ask-tags" not in told
    with pytest.raises(UnknownVersion, match="tiny:v1 was deleted; its name stays taken"):
        versions.version_named(model, "v1")
