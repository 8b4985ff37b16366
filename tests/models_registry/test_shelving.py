"""Versions are set aside and taken back without losing anything; tags come and go, all else stays."""

import pytest

from accounts.actors import of_user
from accounts.errors import RightMissing
from common.errors import Invalid, WrongState
from common.models import AuditRecord
from models_registry import files, references
from models_registry.errors import InUse, InvalidName
from models_registry.filters import ModelFilter
from models_registry.models import Model, Version
from models_registry.selectors import catalogue, versions
from models_registry.services import aliases, archiving, imports
from models_registry.services import versions as version_services
from tests import cast
from tests.models_registry.uses import used_by


def told() -> list[str]:
    return list(AuditRecord.objects.order_by("pk").values_list("action", flat=True))


def test_an_archived_version_keeps_its_files_and_cannot_be_named_by_an_alias(
    library, actor, model, version
) -> None:
    archiving.archive_version(actor=actor, version=version, reason="Worse than v0.")
    library.settle()
    assert (version.state, version.reason) == ("archived", "Worse than v0.")
    library.store.check(files.manifest_of(version))
    with pytest.raises(WrongState, match="archived"):
        aliases.set_alias(actor=actor, model=model, alias="production", version=version)
    with pytest.raises(WrongState):
        files.materialise(version)
    assert told()[-1] == "version.archive"
    assert Model.objects.get().latest is None


def test_a_restored_version_is_as_it_was(library, actor, model, version) -> None:
    before = Version.objects.get()
    archiving.archive_version(actor=actor, version=version)
    archiving.restore_version(actor=actor, version=version, reason="Needed again.")
    after = Version.objects.get()
    assert (after.state, after.reason, after.digest, after.ready_at) == (
        "ready",
        "",
        before.digest,
        before.ready_at,
    )
    aliases.set_alias(actor=actor, model=model, alias="production", version=after)
    assert Model.objects.get().latest == after
    assert told()[-3:] == ["version.archive", "version.restore", "alias.move"]
    moves = versions.version_moves(version).values_list("to_state", "reason")
    assert list(moves)[-1] == ("ready", "Needed again.")


def test_what_is_aliased_or_served_is_not_archived(actor, model, version) -> None:
    alias = aliases.set_alias(actor=actor, model=model, alias="production", version=version)
    with pytest.raises(InUse, match="is production"):
        archiving.archive_version(actor=actor, version=version)
    aliases.delete_alias(actor=actor, alias=alias)
    references.register_uses(used_by(version, "service chat"))
    with pytest.raises(InUse, match="service chat"):
        archiving.archive_version(actor=actor, version=version)
    assert Version.objects.get().state == "ready"


def test_a_model_is_found_by_the_tags_of_its_ready_versions_alone(actor, model, version) -> None:
    def found() -> bool:
        return ModelFilter({"tag": "evaluated"}, queryset=catalogue.models(actor)).qs.exists()

    archiving.tag_version(actor=actor, version=version, add=["evaluated"])
    assert found()
    version = archiving.archive_version(actor=actor, version=version)
    assert not found()
    archiving.tag_version(actor=actor, version=version, remove=["evaluated"])
    archiving.tag_version(actor=actor, version=version, add=["evaluated"])
    assert not found()
    archiving.restore_version(actor=actor, version=version)
    assert found()


def test_only_what_is_ready_is_archived_and_only_what_is_archived_restored(
    library, actor, model, version
) -> None:
    with pytest.raises(WrongState, match="is ready"):
        archiving.restore_version(actor=actor, version=version)
    importing = imports.import_version(actor=actor, model=model, source=str(library.directory("b")))
    with pytest.raises(WrongState, match="is importing"):
        archiving.archive_version(actor=actor, version=importing)


def test_an_archived_version_holds_its_content_when_its_twin_is_deleted(
    library, actor, model, version
) -> None:
    twin = library.ready(actor, model, "copy")
    archiving.archive_version(actor=actor, version=version)
    version_services.delete_version(actor=actor, version=twin)
    library.collect()
    library.store.check(files.manifest_of(version))
    version_services.delete_version(actor=actor, version=version)
    library.collect()
    assert library.stored() == set()


def test_tags_come_and_go_and_the_record_says_who_and_why(actor, version) -> None:
    archiving.tag_version(actor=actor, version=version, add=["good", "lang=en"])
    archiving.tag_version(actor=actor, version=version, add=["good"], remove=["lang=en", "x"], reason="Oops.")
    assert versions.version_card(version).tags == ("good",)
    last = AuditRecord.objects.order_by("pk").last()
    assert (last.action, last.reason, last.actor) == ("version.tag", "Oops.", "ada")
    count = AuditRecord.objects.count()
    archiving.tag_version(actor=actor, version=version, add=["good"], remove=["x"])
    assert AuditRecord.objects.count() == count


def test_tags_that_are_no_words_or_too_many_are_refused(actor, version) -> None:
    with pytest.raises(InvalidName, match="is no tag"):
        archiving.tag_version(actor=actor, version=version, add=["two words"])
    with pytest.raises(Invalid, match="at once"):
        archiving.tag_version(actor=actor, version=version, add=["a"], remove=["a"])
    archiving.tag_version(actor=actor, version=version, add=[f"t{number}" for number in range(50)])
    with pytest.raises(Invalid, match="at most 50"):
        archiving.tag_version(actor=actor, version=version, add=["one-more"])


def test_a_viewer_may_neither_archive_nor_restore_nor_tag_whatever_its_state(version) -> None:
    viewer = of_user(cast.person("vic", vision="viewer"))
    for move in (archiving.archive_version, archiving.restore_version):
        with pytest.raises(RightMissing):
            move(actor=viewer, version=version)
    with pytest.raises(RightMissing):
        archiving.tag_version(actor=viewer, version=version, add=["a"])
    assert Version.objects.get().state == "ready"


def test_lists_leave_archived_versions_out_unless_asked(library, ada, actor, model, version) -> None:
    library.ready(actor, model, fill=b"\2")
    api = cast.api(ada)
    answer = api.post("models/tiny/versions/v1/archive/", {"reason": "old"})
    assert (answer.status_code, answer.json()["state"]) == (200, "archived")
    assert api.post("models/tiny/versions/v2/tags/", {"add": ["good"]}).json()["tags"] == ["good"]

    def listed(query: str) -> list[str]:
        return [one["name"] for one in api.get(f"models/tiny/versions/{query}").json()["results"]]

    assert listed("") == ["v2"]
    assert listed("?state=archived") == ["v1"]
    assert listed("?state=archived&state=ready") == ["v2", "v1"]
    assert listed("?tag=good") == listed("?q=goo") == ["v2"]
    assert api.get("models/tiny/versions/v1/").json()["reason"] == "old"
    assert api.post("models/tiny/versions/v1/restore/", {}).json()["state"] == "ready"
    assert api.post("models/tiny/versions/v1/restore/", {}).status_code == 409
