"""Two versions side by side."""

from hypothesis import given
from hypothesis import strategies as st

from models_registry.comparison import compared, flattened
from models_registry.manifest import ManifestFile

listings = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.sampled_from("0123"), st.integers(0, 9)))
configs = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from([0.0, 1.0, "x"])),
    lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)


def files(listing: dict) -> list[ManifestFile]:
    return [ManifestFile(path, size, content * 64) for path, (content, size) in listing.items()]


@given(listings, listings)
def test_every_file_is_same_changed_added_or_removed_and_its_bytes_count_once(one: dict, other: dict) -> None:
    found = compared(files(one), files(other), config_before={}, config_after={})
    assert {file.path for file in found.files} == one.keys() | other.keys()
    kinds = ("same", "changed", "added", "removed")
    assert sum(found.count_of(kind) for kind in kinds) == len(found.files)
    after = sum(found.bytes_of(kind) for kind in ("same", "changed", "added"))
    assert after == sum(size for _, size in other.values())
    turned = compared(files(other), files(one), config_before={}, config_after={})
    assert turned.count_of("added") == found.count_of("removed")
    assert turned.count_of("changed") == found.count_of("changed")


@given(st.dictionaries(st.sampled_from("ab"), configs), st.dictionaries(st.sampled_from("ab"), configs))
def test_only_config_keys_that_differ_are_listed(one: dict, other: dict) -> None:
    found = compared([], [], config_before=one, config_after=other)
    before, after = flattened(one), flattened(other)
    differing = {
        key for key in before.keys() | after.keys() if repr(before.get(key, "-")) != repr(after.get(key, "-"))
    }
    assert {change.key for change in found.config} == differing


def test_truth_one_and_one_point_nought_are_three_values() -> None:
    found = compared([], [], config_before={"a": True, "b": 1}, config_after={"a": 1, "b": 1.0})
    assert [change.change for change in found.config] == ["changed", "changed"]


def test_a_key_that_became_null_has_changed_and_not_gone() -> None:
    found = compared([], [], config_before={"a": 1, "b": None}, config_after={"a": None})
    assert [(change.key, change.change) for change in found.config] == [("a", "changed"), ("b", "removed")]
