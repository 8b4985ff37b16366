"""A version's digest and the paths that may stand in it."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.errors import FileRefused
from model_store.file_manifest import ManifestFile, manifest_of
from model_store.paths import check_file_path, printable
from models_registry import names
from models_registry.errors import InvalidName
from tests.models_registry import builders as b


@pytest.mark.parametrize(
    "path", ["config.json", ".gitattributes", "a/b c/d-é.txt", "模型.gguf", "a..b", "a" * 255]
)
def test_ordinary_paths_pass(path: str) -> None:
    assert check_file_path(path) == path


@given(st.text(max_size=40))
def test_whatever_path_passes_stays_inside_and_is_what_it_shows(path: str) -> None:
    try:
        check_file_path(path)
    except FileRefused:
        return
    base = Path("/base/version")
    assert base in Path("/base/version", path).parents
    assert Path("/base/version", path).as_posix() == f"/base/version/{path}"
    assert printable(path) == path


def entry(path: str, content: str = "0", size: int = 1) -> ManifestFile:
    return ManifestFile(path, size, content * 64)


@given(st.permutations(["a", "B", "a.b", "a-b", "dir/x", "dir-x", "ä", "z/1", "z/10", "z/2"]))
def test_the_digest_does_not_depend_on_the_order_of_listing(paths: list[str]) -> None:
    digest = manifest_of([entry(path) for path in sorted(paths)]).digest
    assert manifest_of([entry(path) for path in paths]).digest == digest


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from("0123")), min_size=1, unique_by=lambda t: t[0]
    ),
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from("0123")), min_size=1, unique_by=lambda t: t[0]
    ),
)
def test_versions_have_one_digest_exactly_when_they_have_the_same_files(first: list, second: list) -> None:
    one = manifest_of([entry(path, content) for path, content in first])
    two = manifest_of([entry(path, content) for path, content in second])
    assert (one.digest == two.digest) == (sorted(first) == sorted(second))


def test_the_digest_can_be_checked_with_coreutils(tmp_path: Path) -> None:
    import hashlib

    files = {**b.model_files(), "dir/ü n.txt": b"x", "dir-a": b"y", "Z": b"z"}
    b.write(tmp_path, files)
    manifest = manifest_of(
        ManifestFile(path, len(content), hashlib.sha256(content).hexdigest())
        for path, content in files.items()
    )
    shell = r"find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum"
    printed = subprocess.run(
        shell, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert printed.split()[0] == manifest.digest


def test_an_empty_manifest_and_malformed_entries_are_refused() -> None:
    for files in ([], [ManifestFile("a", -1, "0" * 64)], [ManifestFile("a", 1, "XYZ")]):
        with pytest.raises(FileRefused):
            manifest_of(files)


@pytest.mark.parametrize("name", ["qwen", "qwen2.5-0.5b", "0", "a" * 95, "a_b"])
def test_model_names_are_slugs(name: str) -> None:
    assert names.check_model_name(name) == name


@pytest.mark.parametrize("name", ["", "Qwen", "-a", ".a", "a/b", "a b", "ä", "a" * 96, "a\n", "a%2f"])
def test_other_model_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        names.check_model_name(name)


@pytest.mark.parametrize("name", ["v1", "v123", "deadbeefdead", "0" * 64, "Production", "", "a" * 64, "a/b"])
def test_aliases_never_look_like_versions(name: str) -> None:
    with pytest.raises(InvalidName):
        names.check_alias_name(name)


@pytest.mark.parametrize("name", ["deadbeefdead", "v0", "v01", "V3", "v1234567", "", "a b", "-x", "../v1"])
def test_version_names_that_mislead_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        names.check_version_name(name)


@pytest.mark.parametrize("name", ["v3", "2024-11-rc1", "R1+cu12", "v3.1"])
def test_version_names_may_be_numbers_or_words(name: str) -> None:
    assert names.check_version_name(name) == name
