"""Exporting a version to another Slipway."""

from datetime import timedelta

import pytest
from django.test import Client

from hubs import slipway_export
from hubs.models import Export
from hubs.services import exports
from tests.hubs.other_slipway import PART_BYTES, other_slipway
from tests.hubs.outward import Outward, bo, outward
from tests.models_registry import builders as b

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
__all__ = ["bo", "outward"]

FILES = b.model_files()


@pytest.fixture
def other(outward: Outward, settings, monkeypatch):
    monkeypatch.setattr(slipway_export, "LOOK_EVERY_SECONDS", 0.01)
    with other_slipway() as there:
        settings.SLIPWAY_EXPORT_ENDPOINTS = (there.url,)
        yield there


def send(outward: Outward, **given) -> Export:
    wanted = {"kind": "slipway", "repo_id": "tiny", "token": "slp_write", **given}
    return outward.done(outward.start(**wanted))


def test_a_version_becomes_one_of_the_other_slipway_and_no_second_one(outward, other) -> None:
    export = send(outward)
    assert (export.state, export.commit) == ("done", "v1"), export.reason
    assert export.address == f"{other.url}/models/tiny/v1/"
    (made,) = other.models["tiny"]
    assert made["digest"] == outward.version.digest
    assert made["lineage"]["exported_from"].endswith(f"tiny:v1 sha256:{outward.version.digest}")
    sent = {
        sha256: b"".join(data for _, data in sorted(parts.items())) for sha256, parts in other.parts.items()
    }
    weights = outward.version.files.get(path="model.safetensors").sha256
    assert sent[weights] == FILES["model.safetensors"]
    again = send(outward)
    assert (again.state, again.commit) == ("done", "v1")
    assert "held it already" in again.reason
    assert other.calls["complete"] == 1


def test_it_goes_on_with_what_has_arrived_and_is_completed_once(outward, other) -> None:
    other.answers["complete"] = [(503, "down")] * 90
    interrupted = send(outward)
    assert interrupted.state == "interrupted"
    parts = other.calls["part"]
    assert parts == sum(-(-len(content) // PART_BYTES) for content in FILES.values())
    other.answers.clear()
    exports.EXPORTS.ask("resume", actor=outward.actor, transfer=interrupted)
    assert outward.done(interrupted).state == "done"
    assert (other.calls["part"], len(other.models["tiny"])) == (parts, 1)


def test_a_model_is_made_when_asked_for(outward, other) -> None:
    assert "The export can create it" in send(outward, repo_id="fresh").reason
    assert send(outward, repo_id="fresh", create=True).state == "done"
    assert [one["name"] for one in other.models["fresh"]] == ["v1"]


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda other: setattr(other, "token", "another"), "does not accept the token"),
        (lambda other: other.answers.update(begin=[(403, "You may not.")]), "may not write to tiny"),
        (lambda other: other.answers.update(begin=[(409, "Team b may hold 5 bytes.")]), "has no room for it"),
        (lambda other: other.answers.update(begin=[(400, "pickle.bin: no.")]), "does not take it (HTTP 400)"),
        (lambda other: other.answers.update(begin=[(200, "")]), "does not answer like a Slipway"),
        (lambda other: setattr(other, "becomes", "refused"), "has taken it as v1 and refused it: so"),
        (lambda other: setattr(other, "digest", "f" * 64), "with another digest"),
    ],
)
def test_every_obstacle_has_its_own_words(outward, other, prepare, words: str) -> None:
    prepare(other)
    export = send(outward)
    assert export.state == "failed"
    assert words in export.reason


def test_the_page_shows_the_model_and_version_there(outward, other, bo) -> None:
    browser = Client()
    browser.force_login(bo)
    given = {"kind": "slipway", "endpoint": other.url, "repo_id": "tiny", "token": "slp_write",
             "reason": "They asked."}  # fmt: skip
    wrong = browser.post("/models/tiny/v1/+export/", given | {"repo_id": "Not A Name"})
    assert (wrong.status_code, 'id="id_repo_id_error"' in wrong.content.decode()) == (422, True)
    page = browser.post("/models/tiny/v1/+export/", given)["Location"]
    outward.library.clock.pass_(timedelta(seconds=1))
    outward.settle()
    shown = browser.get(page).content.decode()
    assert "Version there" in shown
    assert f'href="{other.url}/models/tiny/v1/"' in shown
