"""Exports of versions: published once, by whom may, with a clear word for every obstacle."""

from datetime import timedelta

import pytest
from django.test import Client

from common.errors import Invalid, NotAllowed, WrongState
from common.events import witness
from common.models import AuditRecord, Intent
from hubs.api.exports import Exports
from hubs.events import VersionExported
from hubs.models import Export
from hubs.services import exports
from model_store.errors import RunUnderWay
from models_registry.models import Version
from models_registry.services import archiving
from tests import cast
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, die
from tests.hubs.outward import REPO, bo, outward
from tests.models_registry import builders as b

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
__all__ = ["bo", "outward"]

FILES = b.model_files()


def test_a_version_becomes_one_commit_that_names_it(outward, library) -> None:
    export = outward.done(outward.start())
    assert (export.state, export.sealed_token, export.is_held) == ("done", "", False)
    repository = outward.server.repository(REPO)
    assert export.commit == repository.branches["main"]
    assert repository.commits[export.commit] == FILES
    digest = outward.version.digest
    title, _, told = repository.messages[export.commit].partition("\n\n")
    assert title == f"tiny:v1 (sha256:{digest[:12]})"
    assert told == f"Version: tiny:v1\nDigest: sha256:{digest}\nSlipway-Export: {export.key}"
    assert (export.bytes_done, export.files_done) == (outward.version.size_bytes, 5)
    assert library.store.staging_keys() == []
    again = outward.done(outward.start())
    assert (again.state, again.commit) == ("done", export.commit)
    assert "held it already" in again.reason
    assert outward.server.writing.calls["commit"] == 1


def test_a_publication_is_told_and_recorded_and_its_token_is_not(outward) -> None:
    told: list[VersionExported] = []
    witness(VersionExported, told.append)
    export = outward.done(outward.start())
    assert told == [VersionExported(outward.version.pk, export.pk)]
    records = list(AuditRecord.objects.filter(action__startswith="export.").order_by("pk"))
    assert [(record.action, record.actor) for record in records] == [
        ("export.start", "bo"),
        ("export.done", "exporter"),
    ]
    assert records[0].reason == "They asked for it."
    assert records[0].detail["digest"] == outward.version.digest
    said = [str(row) for row in AuditRecord.objects.values()] + [str(Intent.objects.values())]
    assert not any("hf_write" in text for text in [*said, str(Export.objects.values())])


def test_only_those_who_may_publish_export(outward, actor) -> None:
    export = outward.start()
    with pytest.raises(NotAllowed):
        exports.start_export(actor=actor, version=outward.version, repo_id=REPO, reason="why not")
    for wish in ("pause", "cancel"):
        with pytest.raises(NotAllowed):
            exports.EXPORTS.ask(wish, actor=actor, transfer=export)


@pytest.mark.parametrize(
    "given",
    [
        {"repo_id": "../../etc"},
        {"repo_id": "tiny"},
        {"branch": "../main"},
        {"reason": " "},
        {"endpoint": "http://169.254.169.254"},
        {"token": "hf_x\r\nHost: evil"},
        {"ignore_patterns": ["*"]},
    ],
)
def test_exports_that_make_no_sense_are_refused(outward, given) -> None:
    with pytest.raises(Invalid):
        outward.start(**given)
    assert not Export.objects.exists()


def test_nothing_leaves_a_server_whose_operator_names_no_hub(outward, settings) -> None:
    export = outward.start()
    settings.SLIPWAY_EXPORT_ENDPOINTS = ()
    with pytest.raises(Invalid) as raised:
        outward.start(branch="other")
    assert "SLIPWAY_EXPORT_ENDPOINTS" in str(raised.value.fields)
    failed = outward.done(export)
    assert failed.state == "failed"
    assert "does not export to" in failed.reason
    assert outward.server.writing.calls.total() == 0


def test_only_ready_versions_leave_and_one_at_a_time_to_a_branch(outward, actor) -> None:
    outward.start()
    with pytest.raises(RunUnderWay):
        outward.start()
    outward.start(branch="other", create=True)
    archiving.archive_version(actor=actor, version=outward.version, reason="old")
    outward.version = Version.objects.get()
    with pytest.raises(WrongState):
        outward.start(branch="third")


def test_a_wrong_token_fails_and_another_one_gets_over_it(outward) -> None:
    failed = outward.done(outward.start(token="hf_read"))
    assert failed.state == "failed"
    assert "may not write to acme/tiny" in failed.reason
    exports.EXPORTS.ask("retry", actor=outward.actor, transfer=failed, token="hf_write")
    assert outward.done(failed).state == "done"


def test_a_dead_hub_interrupts_and_resume_goes_on(outward) -> None:
    outward.server.writing.answers["commit"] = [(500, {}, "")] * 50
    interrupted = outward.done(outward.start())
    assert interrupted.state == "interrupted"
    assert "HTTP 500" in interrupted.reason
    outward.server.writing.answers.clear()
    exports.EXPORTS.ask("resume", actor=outward.actor, transfer=interrupted)
    assert outward.done(interrupted).state == "done"


def test_a_paused_export_rests_and_a_cancelled_one_is_over_until_it_is_retried(outward, library) -> None:
    export = outward.start()
    outward.worker(start=lambda job: None).sweep()
    paused = exports.EXPORTS.ask(
        "pause", actor=outward.actor, transfer=Export.objects.get(), reason="not today"
    )
    assert (outward.done(paused).state, paused.reason) == ("paused", "By bo. not today")
    resumed = exports.EXPORTS.ask("resume", actor=outward.actor, transfer=outward.done(paused))
    assert outward.done(resumed).state == "done"
    with pytest.raises(WrongState):
        exports.EXPORTS.ask("cancel", actor=outward.actor, transfer=outward.done(export))
    second = outward.start(branch="other", create=True)
    outward.worker(start=lambda job: None).sweep()
    exports.EXPORTS.ask("cancel", actor=outward.actor, transfer=Export.objects.get(pk=second.pk))
    over = outward.done(second)
    assert (over.state, over.sealed_token, over.is_held) == ("cancelled", "", False)
    assert library.store.staging_keys() == []
    again = exports.EXPORTS.ask("retry", actor=outward.actor, transfer=over, token="hf_write")
    assert outward.done(again).state == "done"


def test_patterns_say_what_leaves(outward) -> None:
    export = outward.start(ignore_patterns=["*.md", ".git*"], repo_id="acme/new", create=True)
    assert outward.done(export).state == "done", outward.done(export).reason
    held = outward.server.repository("acme/new").commits[Export.objects.get().commit]
    assert held.keys() == {".gitattributes", "config.json", "model.safetensors", "tokenizer.json"}
    assert outward.server.writing.private == {"acme/new": True}


def crashed_at(outward, library, point: int) -> int:
    """Finish an export whose worker dies at this point; return how many points that worker passed."""
    outward.server.writing.storage.clear()
    export = outward.start(branch=f"b{point}", create=True)
    checkpoints = Checkpoints(at=point, then=die)
    try:
        for _ in range(4):
            outward.worker(checkpoints).sweep()
            library.clock.pass_(timedelta(seconds=6))
    except Crash:
        library.clock.pass_(LEASE_AND_A_BIT * 8)
    before = outward.server.writing.calls["commit"]
    export = outward.done(export)
    assert (export.state, export.stuck_at, export.is_held) == ("done", None, False), export.reason
    assert outward.server.writing.calls["commit"] <= before + 1
    assert outward.server.repository(REPO).branches[f"b{point}"] == export.commit
    assert library.store.staging_keys() == []
    return checkpoints.passed


@pytest.mark.parametrize("point", [3, 7])
def test_an_export_survives_a_crash(outward, library, point: int) -> None:
    assert crashed_at(outward, library, point) == point


@pytest.mark.slow
def test_an_export_survives_a_crash_at_any_point(outward, library) -> None:
    point = 1
    while crashed_at(outward, library, point) == point:
        point += 1
    assert point > 10
    commits = list(outward.server.repository(REPO).messages.values())
    assert len(commits) == len(set(commits)) == point


def test_over_rest_a_version_is_exported_followed_and_its_token_kept_secret(outward, bo) -> None:
    api = cast.api(bo)
    body = {"model": "tiny", "version": "v1", "repo_id": REPO, "token": "hf_write", "reason": "They asked."}
    made = api.post("exports/", body)
    assert made.status_code == 202, made.json()
    pk = made.json()["id"]
    assert made["Location"] == f"/api/v1/exports/{pk}/"
    assert (made.json()["state"], made.json()["has_token"]) == ("sending", True)
    assert api.post("exports/", body).status_code == 409
    (first,) = Exports().changed(pk, "")
    assert (first.data["state"], first.last) == ("sending", False)
    outward.settle()
    (last,) = Exports().changed(pk, first.id)
    assert (last.data["state"], last.last) == ("done", True)
    shown = api.get(f"exports/{pk}/")
    assert shown.json()["progress"]["bytes_done"] == outward.version.size_bytes
    assert b"hf_write" not in shown.content + made.content
    assert [one["id"] for one in api.get("exports/?model=tiny&state=done").json()["results"]] == [pk]
    assert "version" in api.post("exports/", body | {"version": "v9"}).json()["errors"]
    stranger = cast.api(cast.person("eve", other="admin"))
    assert stranger.get("exports/").json()["results"] == []
    assert stranger.get(f"exports/{pk}/").status_code == 404


def test_a_list_asks_the_same_number_of_questions_for_any_number_of_exports(
    outward, bo, django_assert_num_queries
) -> None:
    api = cast.api(bo)
    outward.start()
    api.get("exports/")
    with django_assert_num_queries(3):
        api.get("exports/")
    for number in range(3):
        outward.start(branch=f"b{number}")
    with django_assert_num_queries(3):
        assert len(api.get("exports/").json()["results"]) == 4


def test_the_page_of_a_version_leads_to_its_export_and_shows_it_to_the_end(outward, bo) -> None:
    browser = Client()
    browser.force_login(bo)
    version = "/models/tiny/v1/"
    assert f'href="{version}+export/"' in browser.get(version).content.decode()
    form = browser.get(f"{version}+export/").content.decode()
    assert outward.server.url in form
    given = {"kind": "huggingface", "endpoint": outward.server.url, "repo_id": REPO, "token": "hf_read"}
    silent = browser.post(f"{version}+export/", given)
    assert (silent.status_code, 'id="id_reason_error"' in silent.content.decode()) == (422, True)
    answer = browser.post(f"{version}+export/", given | {"reason": "They asked for it."})
    page = f"/models/tiny/+exports/{Export.objects.get().pk}/"
    assert answer["Location"] == page, answer.content.decode()
    assert "every 1s" in browser.get(page).content.decode()
    assert "every 1s" in browser.get("/models/tiny/+exports/").content.decode()
    outward.settle()
    failed = browser.get(page).content.decode()
    assert "may not write to acme/tiny" in failed
    assert "Retry" in failed
    assert browser.post(f"{page}+retry/", {"token": "hf_write"}).status_code == 302
    outward.settle()
    commit = Export.objects.get().commit
    shown = browser.get(page).content.decode()
    assert f'href="{outward.server.url}/{REPO}/commit/{commit}"' in shown
    assert "hf_write" not in shown
    assert f'href="{page}"' in browser.get(version).content.decode()


def test_a_developer_sees_exports_and_is_offered_none(outward, ada) -> None:
    export = outward.done(outward.start())
    browser = Client()
    browser.force_login(ada)
    assert "+export/" not in browser.get("/models/tiny/v1/").content.decode()
    assert REPO in browser.get("/models/tiny/+exports/").content.decode()
    assert "permission to publish" in browser.get("/models/tiny/v1/+export/").content.decode()
    refused = browser.post(f"/models/tiny/+exports/{export.pk}/+retry/", headers={"HX-Request": "true"})
    assert refused.status_code == 422
    assert "You may not export" in refused.content.decode()
    browser.force_login(cast.person("eve", other="admin"))
    for path in ("+exports/", f"+exports/{export.pk}/", "v1/+export/"):
        assert browser.get(f"/models/tiny/{path}").status_code == 404
