"""One import of a directory, in this process: judged before and after it is copied, told in words."""

import json
import os
import pickle
from pathlib import Path

import pytest

from model_store.backends import local_staging
from model_store.backends.local import LocalStore
from models_registry.importing import source_tree
from models_registry.importing.directory import DirectorySource, import_directory
from models_registry.importing.results import ImportResult
from models_registry.importing.transfer import ImportProgress
from tests.models_registry import builders as b


@pytest.fixture
def root(tmp_path: Path) -> Path:
    b.model_directory(tmp_path / "roots/model")
    return tmp_path / "roots"


def run(root: Path, store: LocalStore, path: str = "model", *, reports: list | None = None, **options):
    with store.staging("1") as staging:
        report = (reports if reports is not None else []).append
        return import_directory(DirectorySource(str(root), path, **options), staging, report=report)


def held(store: LocalStore) -> int:
    return sum(1 for path in store.root.rglob("*") if path.is_file() and path.parent.name != "locks")


def test_a_directory_in_hugging_face_layout_is_accepted_with_manifest_and_facts(root, store) -> None:
    reports: list[ImportProgress] = []
    result = run(root, store, reports=reports)
    assert result.outcome == "accepted"
    assert {file.path: (file.size, file.format) for file in result.files} == {
        path: (len(content), kind)
        for (path, content), kind in zip(
            b.model_files().items(), ["json", "safetensors", "json", "text", "text"], strict=True
        )
    }
    assert result.facts.architecture == "LlamaForCausalLM"
    assert result.facts.parameters == 64
    size = sum(map(len, b.model_files().values()))
    assert result.copied_bytes == size
    assert (reports[-1].bytes_done, reports[-1].bytes_total) == (size, size)
    assert (reports[-1].files_done, reports[-1].files_total) == (5, 5)
    store.publish("1", result.manifest)
    assert (store.materialise(result.manifest) / "config.json").read_bytes() == b.model_files()["config.json"]


def test_a_second_import_of_the_same_content_copies_no_byte_and_has_the_same_digest(root, store) -> None:
    first = run(root, store)
    second = run(root, store)
    assert second.copied_bytes == 0
    assert second.manifest.digest == first.manifest.digest


def test_a_result_survives_its_way_through_json(root, store) -> None:
    (root / "model/.DS_Store").write_bytes(b"")
    result = run(root, store)
    assert ImportResult.from_json(json.loads(json.dumps(result.as_json(), allow_nan=False))) == result
    (root / "model/evil.pkl").write_bytes(pickle.dumps(1))
    refused = run(root, store)
    assert ImportResult.from_json(json.loads(json.dumps(refused.as_json()))) == refused


def test_a_refusal_names_every_fault_and_copies_nothing(root, store) -> None:
    b.write(root / "model", {"evil.pkl": pickle.dumps(1), "tool": b"\x7fELF" + b"\0" * 60, "m.so": b""})
    result = run(root, store)
    assert result.outcome == "refused"
    assert sorted(path for path, _ in result.refusals) == ["evil.pkl", "m.so", "tool"]
    assert "2 more are refused" in result.reason
    assert held(store) == 0


def test_a_hostile_entry_refuses_the_whole_version(root, store) -> None:
    (root / "model/link").symlink_to("/etc/passwd")
    result = run(root, store)
    assert result.outcome == "refused"
    assert result.reason.startswith("link: it is a symbolic link")
    assert held(store) == 0


def test_ignore_patterns_let_the_rest_in(root, store) -> None:
    b.write(root / "model", {"pytorch_model.bin": pickle.dumps(1)})
    result = run(root, store, ignore_patterns=("*.bin",))
    assert result.outcome == "accepted"
    assert dict(result.skipped) == {"pytorch_model.bin": "it matches an ignore pattern"}


def test_a_file_swapped_between_the_first_look_and_the_copy_is_judged_again(root, store, monkeypatch) -> None:
    """Even if every check of time and size were outwitted, the copy that is kept is what was judged."""
    target = root / "model/model.safetensors"
    evil = pickle.dumps(b"x" * 200).ljust(target.stat().st_size, b"\0")
    monkeypatch.setattr(source_tree, "_check_unchanged", lambda descriptor, file: None)
    check_space = local_staging.LocalStaging.check_space

    def swap(self, new_bytes: int) -> None:
        # It is asked for again beside a thread that copies; what that one reads must be whole.
        if target.read_bytes() != evil:
            target.write_bytes(evil)
        check_space(self, new_bytes)

    monkeypatch.setattr(local_staging.LocalStaging, "check_space", swap)
    result = run(root, store)
    assert result.outcome == "refused"
    assert "Python pickle" in result.reason


def test_a_file_that_changes_while_it_is_copied_fails_the_import(root, store, monkeypatch) -> None:
    take = local_staging.LocalStaging.take

    def touched(self, descriptor, size, *, counted):
        taken = take(self, descriptor, size, counted=counted)
        (root / "model/README.md").write_bytes(b"other")
        return taken

    monkeypatch.setattr(local_staging.LocalStaging, "take", touched)
    result = run(root, store)
    assert result.outcome == "failed"
    assert "changed while it was being imported" in result.reason


def test_a_full_store_interrupts_the_import_and_says_how_much_is_missing(root, store, monkeypatch) -> None:
    monkeypatch.setattr(LocalStore, "free_bytes", lambda self: local_staging.SPARE_BYTES)
    result = run(root, store)
    size = sum(map(len, b.model_files().values()))
    assert (result.outcome, result.needed_bytes) == ("interrupted", size + local_staging.SPARE_BYTES)
    assert f"{size:,} bytes are missing" in result.reason
    assert held(store) == 0


def test_a_missing_source_fails_the_import(root, store) -> None:
    result = run(root, store, "nowhere")
    assert result.outcome == "failed"
    assert "is not there" in result.reason
    assert "cannot be opened" in run(root / "gone", store).reason


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_fails_the_import(root, store) -> None:
    (root / "model/README.md").chmod(0)
    result = run(root, store)
    assert result.outcome == "failed"
    assert "Permission denied" in result.reason


def test_a_sparse_file_of_petabytes_is_refused_before_it_is_copied(root, store) -> None:
    with (root / "model/model.safetensors").open("r+b") as file:
        file.truncate(8 << 40)
    result = run(root, store)
    assert result.outcome == "refused"
    assert "follow the header" in result.reason


def test_an_unexpected_read_error_is_told_as_a_failure(root, store, monkeypatch) -> None:
    def broken(*_) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    b.write(root / "model", {"model.safetensors": b.weights(1024 * 1024)})
    result = run(root, store)
    assert result.outcome == "failed"
    assert "Input/output error" in result.reason
    assert list(store.root.rglob(".part-*")) == []
