"""The pages about models, as a signed-in person gets them."""

import pytest
from django.test import Client
from django.utils import timezone

from models_registry.facts import readme
from models_registry.models import Alias, Model, Version
from models_registry.selectors import versions
from models_registry.services import aliases, archiving, catalogue, imports
from tests import cast
from tests.clusters.world import version_of
from tests.models_registry import builders as b
from tests.models_registry.pages import PART, text_of


@pytest.fixture
def stranger(db) -> Client:
    client = Client()
    client.force_login(cast.person("eve", other="admin"))
    return client


def test_the_list_shows_latest_version_aliases_and_size(browser, library, actor, model):
    version = library.ready(actor, model)
    aliases.set_alias(actor=actor, model=model, alias="production", version=version, reason="good")
    page = text_of(browser.get("/models/"))
    assert 'href="/models/tiny/"' in page
    assert "production" in page
    assert 'href="/models/tiny/v1/"' in page
    assert "1 version<" in page


def test_searching_answers_with_the_list_alone(browser, actor, model):
    catalogue.create_model(actor=actor, team=cast.team("vision"), name="other")
    answer = browser.get("/models/?q=tin", headers={**PART, "HX-Target": "listing"})
    assert "tiny" in text_of(answer)
    assert "/models/other/" not in text_of(answer)
    assert "<html" not in text_of(answer)


def test_lists_ask_the_same_number_of_questions_for_any_number_of_rows(
    browser, library, actor, model, django_assert_num_queries
):
    version = library.ready(actor, model)
    aliases.set_alias(actor=actor, model=model, alias="a", version=version)
    with django_assert_num_queries(8):
        browser.get("/models/")
    for number in range(5):
        one = catalogue.create_model(actor=actor, team=cast.team("vision"), name=f"m{number}")
        again = library.ready(actor, one, fill=bytes([number]))
        aliases.set_alias(actor=actor, model=one, alias="a", version=again)
    with django_assert_num_queries(8):
        browser.get("/models/")
    with django_assert_num_queries(11):
        browser.get("/models/tiny/")
    for number in range(5):
        library.ready(actor, model, fill=bytes([number + 20]))
    with django_assert_num_queries(11):
        browser.get("/models/tiny/")


def test_another_teams_model_is_not_there(stranger, model):
    for path in ("", "+aliases/", "+card/", "+compare/", "+import/", "+settings/", "v1/"):
        assert stranger.get(f"/models/tiny/{path}").status_code == 404
    assert "/models/tiny/" not in text_of(stranger.get("/models/"))


def test_nobody_sees_a_model_without_signing_in(model):
    answer = Client().get("/models/tiny/")
    assert answer.status_code == 302
    assert answer["Location"] == "/accounts/login/?next=/models/tiny/"


def test_a_new_model_is_made_and_shown(browser, ada):
    answer = browser.post(
        "/models/+new/", {"name": "fresh", "team": "vision", "task": "", "description": "x"}
    )
    assert answer["Location"] == "/models/fresh/"
    assert Model.objects.get().created_by_name == "ada"


def test_a_bad_or_taken_name_is_told_at_the_form_which_keeps_what_was_typed(browser, model):
    bad = browser.post("/models/+new/", {"name": "No Blanks", "team": "vision", "description": "kept"})
    assert bad.status_code == 422
    assert "starts with a letter or digit" in text_of(bad)
    assert "kept" in text_of(bad)
    taken = browser.post("/models/+new/", {"name": "tiny", "team": "vision"})
    assert "There is a model named tiny already" in text_of(taken)


def test_a_viewer_is_offered_no_change_and_may_make_none(library, actor, model):
    version = library.ready(actor, model)
    client = Client()
    client.force_login(cast.person("vic", vision="viewer"))
    page = text_of(client.get("/models/tiny/"))
    assert "Import a version" not in page
    answer = client.post(
        "/models/tiny/+aliases/move/",
        {"alias": "x", "version": version.name, "reason": "y"},
        headers=PART,
    )
    assert answer.status_code == 422
    assert "You may not create and change models" in text_of(answer)
    assert not Alias.objects.exists()


def test_an_import_begins_and_is_followed_until_it_is_ready(browser, library, model):
    library.directory("run")
    page = text_of(browser.get("/models/tiny/+import/"))
    assert str(library.root) in page
    answer = browser.post("/models/tiny/+import/", {"source": str(library.root / "run"), "message": "first"})
    assert answer["Location"] == "/models/tiny/v1/"
    Version.objects.update(
        bytes_done=500_000_000, bytes_total=2_000_000_000, bytes_per_second=118_000_000, files_total=4
    )
    moving = text_of(browser.get("/models/tiny/v1/", headers={**PART, "HX-Target": "now"}))
    assert "every 1s" in moving
    assert "118\u00a0MB/s" in moving
    assert "500\u00a0MB of 2.00\u00a0GB" in moving
    assert "every 1s" in text_of(browser.get("/models/tiny/"))
    library.settle()
    ready = text_of(browser.get("/models/tiny/v1/"))
    assert "every 1s" not in ready
    assert "model.safetensors" in ready


def test_a_directory_that_may_not_be_read_is_told_at_its_field(browser, library, model):
    answer = browser.post("/models/tiny/+import/", {"source": "/etc"})
    assert answer.status_code == 422
    assert "is not inside an import root" in text_of(answer)
    assert 'id="id_source_error"' in text_of(answer)
    unknown = browser.post("/models/tiny/+import/", {"source": str(library.root), "parent": "v9"})
    assert 'id="id_parent_error"' in text_of(unknown)


def test_a_refused_version_says_which_file_and_why_and_can_be_tried_again(browser, library, actor, model):
    directory = library.directory("run")
    (directory / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    imports.import_version(actor=actor, model=model, source=str(directory))
    library.settle()
    page = text_of(browser.get("/models/tiny/v1/"))
    assert "pytorch_model.bin" in page
    assert "pickle" in page
    assert "Retry" in page
    (directory / "pytorch_model.bin").unlink()
    assert browser.post("/models/tiny/v1/+retry/", {"reason": ""}, headers=PART).status_code == 204
    library.settle()
    assert Version.objects.get().state == "ready"


def test_an_import_is_cancelled(browser, library, actor, model):
    imports.import_version(actor=actor, model=model, source=str(library.directory("run")))
    assert browser.post("/models/tiny/v1/+cancel/", {}, headers=PART).status_code == 204
    assert Version.objects.get().state == "failed"
    assert "Cancelled by ada" in text_of(browser.get("/models/tiny/v1/"))


def test_a_stuck_import_says_why_and_stops_asking(browser, library, actor, model):
    imports.import_version(actor=actor, model=model, source=str(library.directory("run")))
    now = timezone.now()
    Version.objects.update(stuck_at=now, failed_since=now, last_error="OSError: the disk is gone")
    page = text_of(browser.get("/models/tiny/v1/"))
    assert "the disk is gone" in page
    assert "Stuck since" in page
    assert "every 1s" not in page


def test_deleting_needs_a_reason_and_is_held_back_by_an_alias(browser, library, actor, model):
    version = library.ready(actor, model)
    aliases.set_alias(actor=actor, model=model, alias="production", version=version)
    assert "Say why." in text_of(browser.post("/models/tiny/v1/+delete/", {"reason": " "}, headers=PART))
    held = browser.post("/models/tiny/v1/+delete/", {"reason": "old"}, headers=PART)
    assert "tiny:v1 is production" in text_of(held)
    assert browser.post("/models/tiny/+aliases/delete/production/", {"reason": "old"}).status_code == 302
    assert browser.post("/models/tiny/v1/+delete/", {"reason": "old"}).status_code == 302
    assert Version.objects.get().state == "deleted"


def test_an_unknown_wish_is_not_there(browser, library, actor, model):
    library.ready(actor, model)
    assert browser.post("/models/tiny/v1/+explode/", {"reason": "x"}).status_code == 404
    assert browser.get("/models/tiny/v1/+delete/").status_code == 405


def test_two_versions_are_compared_file_by_file_and_key_by_key(browser, library, actor, model):
    library.ready(actor, model)
    files = b.model_files(b"\x02")
    files["config.json"] = files["config.json"].replace(b'"hidden_size": 64', b'"hidden_size": 96')
    files["generation_config.json"] = b"{}"
    del files["README.md"]
    directory = b.write(library.root / "second", files)
    imports.import_version(actor=actor, model=model, source=str(directory))
    library.settle()
    page = text_of(browser.get("/models/tiny/+compare/?before=v1&after=v2"))
    assert "hidden_size" in page
    assert "generation_config.json" in page
    assert "1 file the same" not in page
    assert "2 files the same" in page
    assert text_of(browser.get("/models/tiny/+compare/")).count("<option selected>") == 2
    assert "has no version" in text_of(browser.get("/models/tiny/+compare/?before=v1&after=nope"))
    for alone in ("before=v1", "after=v2", "before=v1&after="):
        assert "Choose the other version." in text_of(browser.get(f"/models/tiny/+compare/?{alone}"))


def test_a_version_is_compared_with_the_one_that_it_came_after(browser, library, actor, model):
    def link(version: str) -> str:
        shown = text_of(browser.get(f"/models/tiny/{version}/"))
        return shown.partition("/+compare/?before=")[2].partition('"')[0]

    library.ready(actor, model)
    assert link("v1") == ""
    library.ready(actor, model, "two", b"\x02")
    library.ready(actor, model, "three", b"\x03")
    assert link("v1") == "v1&amp;after=v2"
    assert link("v2") == "v1&amp;after=v2"
    assert link("v3") == "v2&amp;after=v3"
    directory = b.write(library.root / "four", b.model_files(b"\x04"))
    imports.import_version(actor=actor, model=model, source=str(directory), lineage={"parent": "v1"})
    library.settle()
    assert link("v4") == "v1&amp;after=v4"
    archiving.archive_version(actor=actor, version=Version.objects.get(name="v1"), reason="old")
    assert link("v4") == "v3&amp;after=v4"


def test_a_description_is_changed_unless_somebody_was_first(browser, model):
    given = {"task": "t", "description": "new words", "revision": model.revision}
    assert browser.post("/models/tiny/+settings/", given).status_code == 302
    late = browser.post("/models/tiny/+settings/", {**given, "description": "mine"})
    assert late.status_code == 422
    assert "changed by someone else" in text_of(late)


def test_the_card_is_shown_without_what_could_run_or_call_home(browser, api, library, actor, model):
    files = b.model_files()
    files["README.md"] = (
        b"---\nlicense: mit\ntags:\n- a\n- b\nlanguage: [en, fr]\n---\n# Title\n<script>alert(1)</script>\n"
        b'<img src="https://evil.example/x.png" onerror="alert(1)"> <b onclick="x()">bold</b>\n\n'
        b"[ok](https://example.org) [js](javascript:alert(1)) [here](/admin/)\n\n|a|b|\n|-|-|\n|1|2|\n"
    )
    b.write(library.root / "carded", files)
    imports.import_version(actor=actor, model=model, source=str(library.root / "carded"))
    library.settle()
    card = readme.card_of(Version.objects.get())
    assert card.facts == (("license", "mit"), ("language", "en, fr"), ("tags", "a, b"))
    for bad in ("<script", "<img", "onerror", "onclick", 'href="javascript', 'href="/admin', "evil.example"):
        assert bad not in card.html
    assert '<a href="https://example.org" rel="noopener noreferrer nofollow">ok</a>' in card.html
    assert "<td>1</td>" in card.html
    page = text_of(browser.get("/models/tiny/+card/"))
    assert card.html in page
    answer = api.get("models/tiny/versions/v1/card/")
    facts = {"license": "mit", "language": "en, fr", "tags": "a, b"}
    assert answer.json() == {"text": files["README.md"].decode(), "is_cut": False, "facts": facts}
    same = api.get("models/tiny/versions/v1/card/", If_None_Match=answer["ETag"])
    assert same.status_code == 304
    without = api.get(f"models/{version_of(model.team, 'bare:v1').model}/versions/v1/card/")
    assert (without.status_code, "has no model card" in without.json()["detail"]) == (404, True)


def test_a_lost_card_is_a_sentence_and_not_a_failure(browser, api, library, actor, model):
    library.ready(actor, model)
    for blob in library.store.root.rglob("*"):
        if blob.is_file() and blob.stat().st_size == len(b.model_files()["README.md"]):
            blob.unlink()
    page = browser.get("/models/tiny/+card/")
    assert page.status_code == 200
    assert "cannot be read" in text_of(page)
    lost = api.get("models/tiny/versions/v1/card/")
    assert (lost.status_code, lost.json()["type"]) == (409, "urn:slipway:problem:refused")
    assert "The store does not hold" in lost.json()["detail"]


def test_the_search_box_finds_models_and_versions(browser, library, actor, model, stranger):
    version = library.ready(actor, model)
    assert "/models/tiny/" in text_of(browser.get("/search/?q=tin"))
    assert "/models/tiny/v1/" in text_of(browser.get("/search/?q=tiny:v1"))
    assert "/models/tiny/v1/" in text_of(browser.get(f"/search/?q={version.digest[:14]}"))
    assert "/models/tiny/" not in text_of(stranger.get("/search/?q=tin"))


def test_a_tag_that_cannot_be_is_named_beside_its_field(browser, library, actor, model):
    library.ready(actor, model)
    wish = {"before": "", "tags": "good bad!tag"}
    answer = browser.post("/models/tiny/v1/+tags/", wish, headers=PART)
    assert answer.status_code == 422
    assert "Tags: &#x27;bad!tag&#x27; is no tag" in text_of(answer)


def tags_of(version):
    return versions.version_card(version).tags


def test_tags_that_others_put_on_while_a_dialog_was_open_stay(browser, library, actor, model):
    version = library.ready(actor, model)
    archiving.tag_version(actor=actor, version=version, add=["a", "b"])
    shown = text_of(browser.get("/models/tiny/v1/+tags/", headers=PART))
    assert 'name="before" value="a b"' in shown
    archiving.tag_version(actor=actor, version=version, add=["evaluated"], remove=["b"])
    wish = {"before": "a b", "tags": "b c"}
    assert browser.post("/models/tiny/v1/+tags/", wish, headers=PART).status_code == 204
    assert sorted(tags_of(version)) == ["c", "evaluated"]


def test_a_dialog_whose_tags_were_never_shown_takes_none_away(browser, library, actor, model):
    version = library.ready(actor, model)
    archiving.tag_version(actor=actor, version=version, add=["a"])
    for wish in ({"reason": "x"}, {"reason": "x", "tags": ""}):
        answer = browser.post("/models/tiny/v1/+tags/", wish, headers=PART)
        assert answer.status_code == 422
        assert "Open the dialog again." in text_of(answer)
    assert list(tags_of(version)) == ["a"]
