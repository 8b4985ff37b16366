"""Fetching a repository into a staging area, from hubs that behave and hubs that do not."""

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hubs.backends.base import AddressForbidden
from hubs.backends.huggingface import HuggingFace
from hubs.download import fetch_repository
from hubs.source import RepositorySource
from model_store.backends import local_staging as local_intake
from model_store.backends.base import BlobStore
from model_store.backends.bucket.store import BucketStore
from models_registry.importing.directory import DirectorySource, import_directory
from models_registry.importing.results import ImportResult
from models_registry.importing.transfer import ImportProgress
from tests.contracts.store_rigs import BucketRig
from tests.hubs.hub_server import HubServer, hub_server
from tests.models_registry import builders as b

pytestmark = [pytest.mark.process, pytest.mark.any_database]

REPO = "acme/tiny"


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with hub_server() as server:
        server.repository(REPO).commit(files())
        yield server


def files(fill: bytes = b"\x01", elements: int = 50_000) -> dict[str, bytes]:
    return b.model_files(fill) | {"model.safetensors": b.weights(elements, fill)}


def source(hub: HubServer, **changes) -> RepositorySource:
    plain = RepositorySource(
        hub.url, REPO, "main", trusted_hosts=(hub.url.removeprefix("http://"),), patience_seconds=1
    )
    return replace(plain, **changes)


def fetch(
    hub: HubServer, store: BlobStore, *, token: str = "", told: list[ImportProgress] | None = None, **changes
) -> ImportResult:
    wanted = source(hub, **changes)
    client = HuggingFace(wanted.endpoint, token=token, trusted_hosts=wanted.trusted_hosts)
    report = (told if told is not None else []).append
    with store.staging("7") as staging:
        return fetch_repository(wanted, client, staging, report=report)


def test_it_makes_what_an_import_of_the_same_files_makes(hub, store, tmp_path) -> None:
    told: list[ImportProgress] = []
    result = fetch(hub, store, told=told)
    assert result.outcome == "accepted", result.reason
    assert result.commit == hub.repository(REPO).branches["main"]
    b.write(tmp_path / "roots/model", files())
    with store.staging("8") as staging:
        same = import_directory(
            DirectorySource(str(tmp_path / "roots"), "model"), staging, report=lambda _: None
        )
    assert result.manifest == same.manifest
    assert result.facts == same.facts
    last = told[-1]
    assert (last.bytes_done, last.files_done) == (last.bytes_total, last.files_total) == (
        result.manifest.size_bytes,
        5,
    )  # fmt: skip


def test_it_fetches_only_what_the_store_lacks(hub, store) -> None:
    first = fetch(hub, store)
    store.publish("7", first.manifest)
    store.discard("7", is_referenced=set)
    changed = files() | {"README.md": b"# Another text\n"}
    hub.repository(REPO).commit(changed)
    hub.sent.clear()
    second = fetch(hub, store)
    assert second.outcome == "accepted", second.reason
    assert dict(hub.sent) == {"README.md": len(changed["README.md"])}
    assert second.copied_bytes == len(changed["README.md"])
    assert second.manifest.digest != first.manifest.digest


def test_a_cut_connection_is_continued_where_it_broke(hub, store) -> None:
    size = len(files()["model.safetensors"])
    hub.faults.cut_after = [70_000, 60_000]
    result = fetch(hub, store)
    assert result.outcome == "accepted", result.reason
    ranges = [wanted for path, wanted, _ in hub.requests if path.startswith("/cdn/")]
    assert ranges == ["", f"bytes=70000-{size - 1}", f"bytes=130000-{size - 1}"]


def test_a_hub_without_ranges_is_read_from_the_beginning_again(hub, store) -> None:
    hub.faults.cut_after = [70_000]
    hub.faults.ignores_ranges = True
    result = fetch(hub, store)
    assert result.outcome == "accepted", result.reason
    assert result.manifest.size_bytes == sum(map(len, files().values()))


def test_a_hub_that_dies_interrupts_and_what_came_is_kept_for_the_next_try(hub, store) -> None:
    size = len(files()["model.safetensors"])
    hub.faults.cut_after = [150_000] + [0] * 50
    result = fetch(hub, store)
    assert result.outcome == "interrupted"
    assert "What has been fetched is kept." in result.reason
    hub.faults.cut_after = []
    hub.sent.clear()
    assert fetch(hub, store).outcome == "accepted"
    assert dict(hub.sent) == {"model.safetensors": size - 150_000}


def test_another_machine_goes_on_from_the_last_piece_that_a_bucket_holds(hub, s3, tmp_path) -> None:
    place = BucketRig(s3, tmp_path / "node").place
    size, piece = len(files()["model.safetensors"]), 65_536
    hub.faults.cut_after = [150_000] + [0] * 50
    assert fetch(hub, BucketStore(place, part_bytes=piece)).outcome == "interrupted"
    hub.faults.cut_after = []
    hub.requests.clear()
    store = BucketStore(replace(place, cache=tmp_path / "other"), part_bytes=piece)
    result = fetch(hub, store)
    assert result.outcome == "accepted", result.reason
    ranges = [wanted for path, wanted, _ in hub.requests if path.startswith("/cdn/")]
    assert ranges == [f"bytes={2 * piece}-{size - 1}"]
    store.publish("7", result.manifest)
    weights = next(file.sha256 for file in result.files if file.path == "model.safetensors")
    with store.opened(weights) as content:
        assert content.read_at(0, size) == files()["model.safetensors"]


def test_what_was_left_over_damaged_is_fetched_again(hub, store) -> None:
    content = files()["model.safetensors"]
    hub.faults.cut_after = [150_000] + [0] * 50
    assert fetch(hub, store).outcome == "interrupted"
    hub.faults.cut_after = []
    (part,) = [part for part in store.root.glob("incoming/7/.fetch-*") if part.stat().st_size > 1000]
    with part.open("r+b") as file:
        file.seek(100_000)
        file.write(b"\xff" * 10)
    result = fetch(hub, store)
    assert result.outcome == "accepted", result.reason
    with store.staging("7") as staging, staging.opened(result.files[3].sha256) as held:
        assert held.read_at(0, held.size) == content


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"damage": b"\xff" * 4000}, "does not have the content that the hub vouches for"),
        ({"extra_bytes": 100_000}, "sends more of model.safetensors than"),
        ({"size_told": 300_000}, "lists model.safetensors with 300,000 bytes and sends it with 200,112"),
        ({"commit_told": "f" * 40}, "the revision was changed during the sync"),
        ({"redirect_to": "/cdn/../../nothing"}, "does not have it"),
    ],
)
def test_a_hub_that_lies_is_caught(hub, store, faults, words) -> None:
    for name, value in faults.items():
        setattr(hub.faults, name, value)
    result = fetch(hub, store)
    assert result.outcome in ("failed", "interrupted")
    assert words in result.reason
    assert list(store.root.glob("blobs/sha256/*/*")) == []


def test_a_small_file_is_held_against_the_hash_that_git_has_of_it(hub, store) -> None:
    hub.faults.turned = "README.md"
    result = fetch(hub, store)
    assert result.outcome == "failed"
    assert "README.md does not have the content that the hub vouches for" in result.reason


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("pytorch_model.bin", b"\x80\x04" + bytes(5000), "pickle"),
        ("run.sh", b"rm -rf /\n", "program code"),
        ("other.safetensors", b"\xff" * 5000, "it is not valid safetensors"),
        ("notes.txt", b"PK\x03\x04" + bytes(100), "ZIP archive"),
    ],
)
def test_files_that_may_not_enter_are_refused_as_those_of_a_directory(
    hub, store, name: str, content: bytes, words: str
) -> None:
    hub.repository(REPO).commit(files() | {name: content})
    result = fetch(hub, store)
    assert result.outcome == "refused"
    assert [path for path, _ in result.refusals] == [name]
    assert words in result.reason
    kept = fetch(hub, store, ignore_patterns=(name,))
    assert kept.outcome == "accepted", kept.reason
    assert (name, "it matches an ignore pattern") in kept.skipped


def test_a_large_file_is_judged_by_its_header_before_the_whole_of_it_comes(hub, store, monkeypatch) -> None:
    monkeypatch.setattr("hubs.download._SMALL_BYTES", 100_000)
    hub.repository(REPO).commit({"model.safetensors": bytes(900_000)})
    assert fetch(hub, store).outcome == "refused"
    assert hub.sent.total() < 600_000


def test_a_config_that_is_too_large_is_refused_from_the_listing(hub, store) -> None:
    hub.repository(REPO).commit(files() | {"config.json": b"{" + b" " * 9_000_000 + b"}"})
    result = fetch(hub, store)
    assert result.reason == (
        "config.json: it has 9,000,002 bytes; a config may have at most 8,388,608. Mend what must not enter, "
        "or leave it out by the patterns of the source, and sync again."
    )
    assert hub.sent.total() == 0


def test_allow_patterns_leave_out_the_rest(hub, store) -> None:
    result = fetch(hub, store, allow_patterns=("*.safetensors", "config.json"))
    assert [file.path for file in result.files] == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(
    ("prepare", "changes", "cause", "words"),
    [
        (lambda hub: None, {"repo_id": "acme/nothing"}, "no_repository", "no repository acme/nothing"),
        (lambda hub: None, {"revision": "v9"}, "no_revision", "has no revision v9"),
        (lambda hub: None, {"token": "hf_wrong"}, "bad_token", "does not accept the token"),
        (lambda hub: hub.gated.add(REPO), {}, "gated", "is gated"),
        (lambda hub: hub.tokens.update({REPO: {"hf_ok"}}), {}, "no_repository", "it needs a token"),
        (lambda hub: hub.faults.answers.append((200, {})), {}, "misbehaves", "not answer like a Hugging"),
        (lambda hub: hub.faults.answers.append((418, {})), {}, "misbehaves", "answers HTTP 418"),
    ],
)
def test_every_refusal_of_a_hub_has_its_own_words(hub, store, prepare, changes, cause, words: str) -> None:
    prepare(hub)
    result = fetch(hub, store, **changes)
    assert (result.outcome, result.cause) == ("failed", cause)
    assert words in result.reason


def test_a_hub_with_a_fault_of_its_own_interrupts(hub, store) -> None:
    hub.faults.answers.extend([(500, {})] * 99)
    result = fetch(hub, store)
    assert result.outcome == "interrupted"
    assert "has a fault of its own (HTTP 500)" in result.reason


def test_a_limit_of_the_hub_is_waited_for_and_told(hub, store) -> None:
    hub.faults.answers = [(429, {"RateLimit": '"api";r=0;t=0'})]
    hub.faults.file_answers = [(429, {"Retry-After": "1"})]
    told: list[ImportProgress] = []
    result = fetch(hub, store, told=told)
    assert result.outcome == "accepted", result.reason
    assert any("The hub asks to wait 1 s" in one.reason for one in told)
    assert told[-1].reason == ""


def test_while_nothing_comes_no_speed_is_told_and_the_wait_does_not_count_against_it(hub, store) -> None:
    hub.faults.bytes_per_second = 400_000
    hub.faults.cut_after = [100_000, 0]
    told: list[ImportProgress] = []
    result = fetch(hub, store, told=told)
    assert result.outcome == "accepted", result.reason
    waits = [one for one in told if one.reason]
    assert waits
    assert {one.bytes_per_second for one in waits} == {0}
    assert told[-1].bytes_per_second > 0


def test_a_hub_that_is_gone_is_told_in_words_that_name_it(hub, store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    result = fetch(hub, store, endpoint=endpoint, trusted_hosts=(f"127.0.0.1:{port}",))
    assert result.outcome == "interrupted"
    assert result.reason == (
        f"127.0.0.1:{port} cannot be reached: connection refused. What has been fetched is kept."
    )


def test_room_is_taken_before_a_byte_is_fetched(hub, store, monkeypatch) -> None:
    monkeypatch.setattr(local_intake, "SPARE_BYTES", 2**60)
    result = fetch(hub, store)
    assert (result.outcome, result.cause) == ("interrupted", "store_full")
    assert "The model store is full" in result.reason
    assert hub.sent.total() == 0


def test_a_private_address_is_asked_only_when_the_operator_names_it(hub, store) -> None:
    result = fetch(hub, store, trusted_hosts=())
    assert result.outcome == "failed"
    assert "SLIPWAY_HUB_ENDPOINTS" in result.reason
    assert hub.requests == []
    with pytest.raises(AddressForbidden):
        HuggingFace(hub.url).snapshot(REPO, "main")
