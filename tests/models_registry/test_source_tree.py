"""Only plain files inside the directory are read, whatever others do to it meanwhile."""

import os
from pathlib import Path

import pytest

from model_store.errors import FileRefused, SourceChanged
from models_registry.errors import SourceUnreadable
from models_registry.importing import source_tree
from tests.models_registry import builders as b
from tests.models_registry.hostile.entries import put_symlink


def listed(root: Path, relative: str = "model", **options) -> source_tree.DirectoryListing:
    with source_tree.opened(root, relative) as directory:
        return source_tree.list_files(directory, **options)


def refusals(root: Path) -> dict[str, str]:
    return {refusal.path: refusal.reason for refusal in listed(root).refusals}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    b.model_directory(tmp_path / "model")
    (tmp_path / "secret").write_text("secret")
    return tmp_path


def test_a_directory_is_listed_in_byte_order_with_sizes(root: Path) -> None:
    listing = listed(root)
    assert [file.path for file in listing.files] == sorted(b.model_files())
    assert listing.size_bytes == sum(map(len, b.model_files().values()))
    assert listing.refusals == ()


def test_repository_and_cache_directories_are_left_out_and_told(root: Path) -> None:
    b.write(
        root / "model",
        {".git/config": b"x", ".cache/huggingface/a.lock": b"", ".DS_Store": b"\0", "s/.git": b"x"},
    )
    (root / "model/.git/link").symlink_to("/etc/passwd")
    listing = listed(root)
    assert [path for path, _ in listing.skipped] == [".DS_Store", ".cache", ".git", "s/.git"]
    assert len(listing.files) == 5
    assert listing.refusals == ()


def test_ignore_patterns_leave_files_and_directories_out(root: Path) -> None:
    b.write(root / "model", {"pytorch_model.bin": b"x", "onnx/a.onnx": b"x"})
    (root / "model/loose").symlink_to("nowhere")
    listing = listed(root, ignore_patterns=["*.bin", "onnx", "loose"])
    assert len(listing.files) == 5
    assert dict(listing.skipped)["pytorch_model.bin"] == "it matches an ignore pattern"
    assert listing.refusals == ()


def test_all_hostile_entries_are_named_at_once(root: Path) -> None:
    put_symlink(root / "model")
    os.mkfifo(root / "model/pipe")
    assert set(refusals(root)) == {"bad", "pipe"}


def test_hard_links_within_the_directory_are_fine(root: Path) -> None:
    os.link(root / "model/config.json", root / "model/copy.json")
    assert refusals(root) == {}


def test_an_empty_directory_is_refused(root: Path) -> None:
    (root / "empty/inner").mkdir(parents=True)
    assert "no files" in listed(root, "empty").refusals[0].reason


def test_too_many_files_are_refused(root: Path, monkeypatch) -> None:
    monkeypatch.setattr(source_tree, "MAX_FILES", 3)
    assert "more than 3 files" in listed(root).refusals[0].reason


@pytest.mark.parametrize("relative", ["../model", "model/../../etc", ".."])
def test_a_path_that_goes_upwards_is_refused(root: Path, relative: str) -> None:
    with pytest.raises(FileRefused, match="upwards"):
        listed(root, relative)


def test_a_directory_behind_a_link_is_refused(root: Path) -> None:
    (root / "link").symlink_to("model", target_is_directory=True)
    with pytest.raises(FileRefused, match="symbolic link"):
        listed(root, "link")
    (root / "deep").symlink_to(".", target_is_directory=True)
    with pytest.raises(FileRefused, match="symbolic link"):
        listed(root, "deep/model")


def test_a_missing_directory_or_a_file_is_unreadable(root: Path) -> None:
    with pytest.raises(SourceUnreadable, match="not there"):
        listed(root, "nowhere")
    with pytest.raises(SourceUnreadable, match="Not a directory"):
        listed(root, "secret")


def read(root: Path, file: source_tree.SourceFile) -> bytes:
    with source_tree.opened(root, "model") as directory, source_tree.open_file(directory, file) as descriptor:
        return os.read(descriptor, 1000)


def file_named(root: Path, path: str) -> source_tree.SourceFile:
    return next(file for file in listed(root).files if file.path == path)


def test_a_file_swapped_for_a_link_after_listing_is_not_followed(root: Path) -> None:
    file = file_named(root, "README.md")
    (root / "model/README.md").unlink()
    (root / "model/README.md").symlink_to(root / "secret")
    with pytest.raises(FileRefused, match="symbolic link"):
        read(root, file)


def test_a_directory_swapped_for_a_link_after_listing_is_not_followed(root: Path) -> None:
    b.write(root / "model", {"inner/secret": b"mine"})
    file = file_named(root, "inner/secret")
    (root / "model/inner").rename(root / "model/old")
    (root / "model/inner").symlink_to(root, target_is_directory=True)
    with pytest.raises(FileRefused, match="symbolic link"):
        read(root, file)


def test_a_file_swapped_for_a_pipe_after_listing_does_not_hang(root: Path) -> None:
    file = file_named(root, "README.md")
    (root / "model/README.md").unlink()
    os.mkfifo(root / "model/README.md")
    with pytest.raises(SourceChanged):
        read(root, file)


def test_a_file_replaced_or_rewritten_after_listing_is_noticed(root: Path) -> None:
    path = root / "model/README.md"
    file = file_named(root, "README.md")
    other = root / "other"
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(file.modified_ns, file.modified_ns))
    other.rename(path)
    with pytest.raises(SourceChanged):
        read(root, file)
    file = file_named(root, "README.md")
    content = path.read_bytes()
    path.write_bytes(content[::-1])
    os.utime(path, ns=(file.modified_ns, file.modified_ns))
    with pytest.raises(SourceChanged, match="changed while"):
        read(root, file)


def test_a_file_rewritten_while_it_is_open_is_noticed_at_the_end(root: Path) -> None:
    file = file_named(root, "README.md")
    with (
        source_tree.opened(root, "model") as directory,
        pytest.raises(SourceChanged),
        source_tree.open_file(directory, file),
    ):
        (root / "model/README.md").write_bytes(b"other")


def test_no_descriptor_is_leaked(root: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        put_symlink(root / "model")
        refusals(root)
        (root / "model/bad").unlink()
        read(root, file_named(root, "README.md"))
        with pytest.raises(FileRefused):
            listed(root, "../x")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
