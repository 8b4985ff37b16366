"""A version goes from a directory to ready, or says in words why not; afterwards it never changes."""

import errno
import os
import pickle

import pytest
from django.db import IntegrityError, transaction

from accounts.actors import of_user
from common import audit
from common.errors import Invalid, NameTaken, NotAllowed, WrongState
from common.models import AuditRecord
from model_store.backends.local_staging import LocalStaging
from models_registry import files
from models_registry.errors import InvalidName, SourceNotAllowed, UnknownModel, VersionFrozen
from models_registry.models import Version, VersionFile, VersionMove
from models_registry.services import catalogue, imports, versions
from models_registry.states import VersionState
from tests import cast
from tests.models_registry import builders as b

pytestmark = pytest.mark.django_db


def begun(library, actor, model, **options) -> Version:
    return imports.import_version(actor=actor, model=model, source=str(library.directory()), **options)


def history(version: Version) -> list[str]:
    return [move.to_state for move in VersionMove.objects.filter(version=version)]


def test_an_import_ends_ready_with_files_digest_and_facts(library, actor, model) -> None:
    version = begun(library, actor, model, message="First try.")
    assert (version.name, version.state, str(version)) == ("v1", "importing", "tiny:v1")
    library.settle()
    version.refresh_from_db()
    assert version.state == "ready"
    assert version.ready_at is not None
    assert version.digest == files.manifest_of(version).digest
    assert (version.architecture, version.parameters, version.context_length) == ("LlamaForCausalLM", 64, 512)
    assert version.size_bytes == sum(map(len, b.model_files().values()))
    assert (version.bytes_done, version.files_done) == (version.size_bytes, 5)
    assert version.config["hidden_size"] == 64
    assert version.scan["verdict"] == "passed"
    assert version.scan["formats"]["safetensors"]["files"] == 1
    assert (version.next_at, version.is_held) == (None, False)
    directory = files.materialise(version)
    assert (directory / "config.json").read_bytes() == b.model_files()["config.json"]


def test_history_audit_and_author_tell_who_imported_and_when(library, actor, model) -> None:
    version = library.ready(actor, model, message="First try.")
    assert history(version) == ["importing", "ready"]
    assert version.author_name == "ada"
    rows = AuditRecord.objects.filter(subject_kind="models_registry.version").order_by("seq")
    assert [(row.action, row.actor, row.subject_label) for row in rows] == [
        ("version.import", "ada", "tiny:v1"),
        ("version.ready", "importer", "tiny:v1"),
    ]
    assert rows[1].detail["digest"] == version.digest
    assert audit.verify().intact


def test_a_refusal_is_told_with_every_fault_and_leaves_nothing_in_the_store(library, actor, model) -> None:
    b.write(library.directory(), {"evil.pkl": pickle.dumps(1), "m.so": b"\x7fELF"})
    version = begun(library, actor, model)
    library.settle()
    version.refresh_from_db()
    assert version.state == "refused"
    assert "evil.pkl" in version.reason
    assert {refusal["path"] for refusal in version.scan["refusals"]} == {"evil.pkl", "m.so"}
    assert version.digest is None
    assert history(version) == ["importing", "refused"]
    assert library.stored() == set()


def unreadable(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_failure_can_be_retried_under_the_same_name(library, actor, model, monkeypatch) -> None:
    monkeypatch.setattr(LocalStaging, "take", unreadable)
    version = begun(library, actor, model)
    library.settle()
    version.refresh_from_db()
    assert version.state == "failed"
    assert "Input/output error" in version.reason
    assert library.stored() == set()
    monkeypatch.undo()
    version = imports.retry_import(actor=actor, version=version)
    assert (version.state, version.attempt, version.reason) == ("importing", 2, "")
    library.settle()
    version.refresh_from_db()
    assert version.state == "ready"
    assert history(version) == ["importing", "failed", "importing", "ready"]


def test_a_refused_version_can_be_retried_when_its_directory_was_mended(library, actor, model) -> None:
    evil = library.directory() / "evil.pkl"
    evil.write_bytes(pickle.dumps(1))
    version = begun(library, actor, model)
    library.settle()
    evil.unlink()
    version = imports.retry_import(actor=actor, version=Version.objects.get(pk=version.pk))
    library.settle()
    version.refresh_from_db()
    assert version.state == "ready"
    assert version.scan["refusals"] == []


def test_only_failed_and_refused_imports_can_be_retried(library, actor, model) -> None:
    version = begun(library, actor, model)
    with pytest.raises(WrongState, match="importing"):
        imports.retry_import(actor=actor, version=version)
    library.settle()
    with pytest.raises(WrongState, match="ready"):
        imports.retry_import(actor=actor, version=Version.objects.get(pk=version.pk))


def test_two_who_retry_at_once_begin_one_attempt(library, actor, model, monkeypatch) -> None:
    monkeypatch.setattr(LocalStaging, "take", unreadable)
    version = begun(library, actor, model)
    library.settle()
    mine, yours = Version.objects.get(pk=version.pk), Version.objects.get(pk=version.pk)
    imports.retry_import(actor=actor, version=mine)
    with pytest.raises(WrongState, match="just changed"):
        imports.retry_import(actor=actor, version=yours)
    assert Version.objects.get(pk=version.pk).attempt == 2


def test_the_same_content_again_copies_no_byte_and_has_the_same_digest(library, actor, model) -> None:
    first = library.ready(actor, model)
    second = library.ready(actor, model, "copy")
    assert (second.name, second.digest) == ("v2", first.digest)
    assert second.scan["copied_bytes"] == 0


def test_versions_are_numbered_and_may_be_named(library, actor, model) -> None:
    assert begun(library, actor, model).name == "v1"
    named = begun(library, actor, model, version="2026-11-rc1")
    assert (named.number, named.name) == (2, "2026-11-rc1")
    assert begun(library, actor, model).name == "v3"
    jumped = begun(library, actor, model, version="v7")
    assert (jumped.number, jumped.name) == (7, "v7")
    assert begun(library, actor, model).number == 8
    for taken in ("v1", "2026-11-rc1", "v5", "v8"):
        with pytest.raises(NameTaken):
            begun(library, actor, model, version=taken)
    with pytest.raises(InvalidName):
        begun(library, actor, model, version="deadbeefdeadbeef")


def test_lineage_names_its_parent_and_keeps_what_its_author_says(library, actor, model) -> None:
    first = library.ready(actor, model)
    second = begun(library, actor, model, lineage={"parent": "v1", "trained_by": "job 7", "data": ["a"]})
    assert second.parent == first
    assert second.lineage == {"trained_by": "job 7", "data": ["a"]}
    third = begun(library, actor, model, lineage={"parent": f"tiny:{first.digest[:12]}"})
    assert third.parent == first
    for lineage in (
        {"parent": "v99"},
        {"parent": "other:v1"},
        {"parent": 7},
        {"notes": "x" * 20_000},
        {"bad": object()},
    ):
        with pytest.raises(Invalid, match="lineage"):
            begun(library, actor, model, lineage=lineage)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("", "absolute path"),
        ("relative/dir", "absolute path"),
        ("hf://org/name@", "named hf://org/name@revision"),
        ("hf://../etc@main", "named hf://org/name@revision"),
        ("https://example.org/model", "does not import from https"),
        ("http://169.254.169.254/latest", "does not import from http"),
        ("file://fileserver/share", "No living host has the name fileserver"),
        ("file:///a?b", "without"),
        ("file:///%ff", "absolute path"),
        ("file:///etc/%00", "absolute path"),
        ("/etc", "SLIPWAY_IMPORT_ROOTS"),
        ("/etc/passwd", "SLIPWAY_IMPORT_ROOTS"),
        ("{root}/../..", "SLIPWAY_IMPORT_ROOTS"),
        ("{root}/model/../../secret", "SLIPWAY_IMPORT_ROOTS"),
        ("{root}/link", "SLIPWAY_IMPORT_ROOTS"),
        ("{root}/link/passwd", "SLIPWAY_IMPORT_ROOTS"),
        ("{root}-sibling", "SLIPWAY_IMPORT_ROOTS"),
        ("{root}/nowhere", "is not there"),
        ("{root}/model/config.json", "is a file"),
        ("/\x00", "absolute path"),
        ("/" + "a" * 5000, "absolute path"),
    ],
)
def test_sources_that_this_server_does_not_read_are_refused(
    library, actor, model, source: str, complaint: str
) -> None:
    library.directory()
    (library.root / "link").symlink_to("/etc")
    library.root.with_name("roots-sibling").mkdir()
    with pytest.raises(SourceNotAllowed, match=complaint):
        imports.import_version(actor=actor, model=model, source=source.format(root=library.root))
    assert not Version.objects.exists()


def test_without_import_roots_the_refusal_names_the_setting(library, actor, model, settings) -> None:
    settings.SLIPWAY_IMPORT_ROOTS = ()
    with pytest.raises(SourceNotAllowed, match="SLIPWAY_IMPORT_ROOTS is empty"):
        begun(library, actor, model)


def test_the_store_itself_is_no_source(library, actor, model, settings) -> None:
    settings.SLIPWAY_IMPORT_ROOTS = (library.root.parent,)
    version = library.ready(actor, model)
    for source in (files.materialise(version), library.home, library.root.parent):
        with pytest.raises(SourceNotAllowed, match="overlaps the model store"):
            imports.import_version(actor=actor, model=model, source=str(source))


def test_a_link_to_a_directory_inside_a_root_and_a_file_address_are_resolved(library, actor, model) -> None:
    directory = library.directory()
    (library.root / "current").symlink_to(directory)
    version = imports.import_version(actor=actor, model=model, source=str(library.root / "current"))
    assert version.source["uri"] == directory.as_uri()
    version = imports.import_version(actor=actor, model=model, source=f"{directory.as_uri()}/")
    assert version.source["path"] == "model"


def test_a_directory_swapped_for_a_link_after_the_request_is_refused(library, actor, model) -> None:
    version = begun(library, actor, model)
    (library.root / "model").rename(library.root / "moved")
    (library.root / "model").symlink_to("/etc")
    library.settle()
    version.refresh_from_db()
    assert version.state == "refused"
    assert "symbolic link" in version.reason


def test_a_viewer_imports_nothing_and_a_stranger_neither(library, model) -> None:
    for user in (cast.person("vic", vision="viewer"), cast.person("sue", other="admin")):
        with pytest.raises(NotAllowed):
            begun(library, of_user(user), model)


def test_texts_that_cannot_be_stored_are_refused(library, actor, model) -> None:
    for message in ("a\x00b", "x" * 5000):
        with pytest.raises(Invalid, match="message"):
            begun(library, actor, model, message=message)
    with pytest.raises(Invalid, match="ignore_patterns"):
        begun(library, actor, model, ignore_patterns=["*"] * 51)


def test_a_failed_audit_write_blocks_the_import(library, actor, model, monkeypatch) -> None:
    def broken(*_, **__) -> None:
        raise RuntimeError("the audit disk is gone")

    monkeypatch.setattr(audit, "record", broken)
    with pytest.raises(RuntimeError), transaction.atomic():
        begun(library, actor, model)
    assert not Version.objects.exists()


def test_a_ready_version_never_changes(library, actor, model) -> None:
    version = library.ready(actor, model)
    for columns in ({"digest": "0" * 64}, {"message": "other"}, {"size_bytes": 1}, {"author": None}):
        with pytest.raises(VersionFrozen):
            Version.objects.filter(pk=version.pk).update(**columns)
        for name, value in columns.items():
            setattr(version, name, value)
        with pytest.raises(VersionFrozen):
            version.save()
        with pytest.raises(VersionFrozen):
            version.save(update_fields=list(columns))
        with pytest.raises(VersionFrozen), transaction.atomic():
            Version.objects.bulk_update([version], list(columns))
        version.refresh_from_db()
    with pytest.raises(VersionFrozen):
        version.delete()
    with pytest.raises(VersionFrozen):
        Version.objects.all().delete()
    file = VersionFile.objects.filter(version=version).first()
    for change in (file.save, file.delete, VersionFile.objects.all().delete):
        with pytest.raises(VersionFrozen):
            change()
    with pytest.raises(VersionFrozen):
        VersionFile.objects.update(size=0)
    with pytest.raises(VersionFrozen):
        VersionFile(version=version, path="new", size=1, sha256="0" * 64, format="text").save()
    assert files.manifest_of(version).digest == version.digest


def test_the_database_itself_holds_the_promises_of_a_version(library, actor, model) -> None:
    version = begun(library, actor, model)
    rows = Version.objects.filter(pk=version.pk)
    for columns in (
        {"state": VersionState.READY},
        {"digest": "0" * 64},
        {"state": "unheard of"},
        {"number": 0},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            rows.update(**columns)
    other = begun(library, actor, model)
    with pytest.raises(IntegrityError), transaction.atomic():
        Version.objects.filter(pk=other.pk).update(name="v1")


def test_deleting_lets_go_of_files_that_nobody_else_needs_and_keeps_the_name_taken(
    library, actor, model
) -> None:
    first = library.ready(actor, model)
    second = library.ready(actor, model, "other", b"\x02")
    directory = files.materialise(first)
    versions.delete_version(actor=actor, version=first, reason="Too old.")
    library.settle()
    assert not directory.exists()
    assert {file.sha256 for file in files.manifest_of(first).files} <= library.stored()
    library.collect()
    assert library.stored() == {file.sha256 for file in files.manifest_of(second).files}
    first.refresh_from_db()
    assert (first.state, first.reason, first.is_held) == ("deleted", "Too old.", False)
    assert begun(library, actor, model).name == "v3"
    with pytest.raises(WrongState):
        files.materialise(first)
    with pytest.raises(WrongState):
        versions.delete_version(actor=actor, version=first)


def test_deleting_one_of_two_versions_with_the_same_content_leaves_the_other_whole(
    library, actor, model
) -> None:
    first = library.ready(actor, model)
    second = library.ready(actor, model, "copy")
    directory = files.materialise(first)
    versions.delete_version(actor=actor, version=first)
    library.settle()
    assert files.materialise(second) == directory
    library.store.check(files.manifest_of(second))


def test_an_import_under_way_is_not_deleted(library, actor, model) -> None:
    version = begun(library, actor, model)
    with pytest.raises(WrongState, match="Cancel the import first"):
        versions.delete_version(actor=actor, version=version)


def test_a_deleted_model_takes_no_more_versions(library, actor, model) -> None:
    catalogue.delete_model(actor=actor, model=model)
    with pytest.raises(UnknownModel):
        begun(library, actor, model)


def test_intakes_that_no_row_knows_of_are_removed(library, actor, model) -> None:
    with library.store.staging("987654") as staging:
        staging.write_note("result", b"{}")
    library.ready(actor, model)
    assert library.store.staging_keys() == []
