"""Exporting files to a repository, to hubs that behave and hubs that do not."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hubs.backends.repository import Repository
from hubs.export_result import ExportResult
from hubs.push import push_version
from hubs.target import RepositoryTarget
from model_store.backends.local import LocalStore
from model_store.file_manifest import ManifestFile
from models_registry.importing.directory import DirectorySource, import_directory
from models_registry.importing.transfer import ImportProgress
from tests.hubs.hub_server import HubServer, hub_server
from tests.models_registry import builders as b

pytestmark = pytest.mark.process

REPO = "acme/tiny"
FILES = b.model_files() | {"model.safetensors": b.weights(50_000), "empty.txt": b""}
SIZE = sum(map(len, FILES.values()))
WEIGHTS = len(FILES["model.safetensors"])
THEIRS = {".gitattributes": b"*.safetensors filter=lfs\n", "notes.txt": b"ours"}


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with hub_server() as server:
        server.repository(REPO).commit(THEIRS)
        server.tokens[REPO] = {"hf_write", "hf_read"}
        server.writing.readers = {"hf_read"}
        yield server


class Sender:
    """A store with a version in it, and what sends that."""

    def __init__(self, root: Path, hub: HubServer) -> None:
        self.hub, self.store, self.token = hub, LocalStore(root / "store"), "hf_write"
        b.write(root / "roots/model", FILES)
        with self.store.staging("1") as staging:
            result = import_directory(DirectorySource(str(root / "roots"), "model"), staging, report=print)
        self.files: tuple[ManifestFile, ...] = result.manifest.files
        self.store.publish("1", result.manifest)
        self.target = RepositoryTarget(
            hub.url,
            REPO,
            "main",
            title="tiny:v1 (sha256:0123)",
            description="Digest: sha256:0123\nSlipway-Export: 7",
            marker="Slipway-Export: 7",
            trusted_hosts=(hub.url.removeprefix("http://"),),
            patience_seconds=0.5,
        )

    def push(self, told: list[ImportProgress] | None = None, **changes) -> ExportResult:
        target = replace(self.target, **changes)
        hosts = target.trusted_hosts
        repository = Repository(
            target.endpoint, target.repo_id, target.branch, token=self.token, trusted_hosts=hosts
        )
        with self.store.staging("export-1") as staging:
            return push_version(
                target,
                self.files,
                repository,
                staging,
                read_note=lambda name: self.store.read_note("export-1", name),
                report=(told if told is not None else []).append,
            )


@pytest.fixture
def sender(tmp_path, hub) -> Sender:
    return Sender(tmp_path, hub)


@pytest.mark.parametrize("part_bytes", [0, 65_536])
def test_one_commit_holds_the_version_beside_what_was_there(sender, hub, part_bytes: int) -> None:
    hub.writing.part_bytes = part_bytes
    told: list[ImportProgress] = []
    result = sender.push(told)
    assert result.outcome == "sent", result.reason
    repository = hub.repository(REPO)
    assert repository.branches["main"] == result.commit
    assert repository.commits[result.commit] == THEIRS | FILES
    assert repository.messages[result.commit].startswith("tiny:v1 (sha256:0123)\n\nDigest: sha256:0123")
    assert (hub.writing.calls["commit"], result.sent_bytes) == (1, WEIGHTS)
    assert hub.writing.tokens_at_storage == {""}
    last = told[-1]
    assert (last.bytes_done, last.files_done) == (last.bytes_total, last.files_total) == (SIZE, 6)


def test_doing_it_again_makes_no_second_commit(sender, hub) -> None:
    first = sender.push()
    second = sender.push()
    assert (second.outcome, second.commit, second.was_there) == ("sent", first.commit, True)
    # Even when somebody has committed on top of it.
    hub.repository(REPO).commit(THEIRS)
    third = sender.push()
    assert (third.outcome, third.commit, third.was_there) == ("sent", first.commit, True)
    assert hub.writing.calls["commit"] == 1
    assert sender.push(marker="Slipway-Export: 8").was_there is False


def test_a_commit_whose_answer_is_lost_is_found_and_not_made_twice(sender, hub) -> None:
    hub.writing.loses_answers_to_commits = 1
    result = sender.push()
    assert result.outcome == "sent", result.reason
    assert hub.writing.calls["commit"] == 1


def test_a_cut_connection_sends_only_the_part_that_broke_again(sender, hub) -> None:
    hub.writing.part_bytes = 65_536
    hub.writing.cut_after = [30_000]
    assert sender.push().outcome == "sent"
    assert hub.writing.put_bytes == WEIGHTS


def test_what_an_earlier_process_has_sent_is_not_sent_again(sender, hub) -> None:
    hub.writing.part_bytes = 65_536
    hub.writing.answers["complete"] = [(503, {}, "down")] * 50
    first = sender.push()
    assert first.outcome == "interrupted"
    assert "has a fault of its own (HTTP 503)" in first.reason
    hub.writing.answers.clear()
    hub.writing.put_bytes = 0
    assert sender.push().outcome == "sent"
    assert hub.writing.put_bytes == 0


def test_addresses_that_have_expired_are_asked_for_again(sender, hub) -> None:
    hub.writing.part_bytes = 65_536
    hub.writing.answers["complete"] = [(503, {}, "down")] * 50
    sender.push()
    hub.writing.answers.clear()
    hub.writing.parts.clear()
    hub.writing.generation += 1
    hub.writing.answers["complete"] = [(404, {"X-Error-Code": "EntryNotFound"}, "no such upload")]
    result = sender.push()
    assert result.outcome == "sent", result.reason


def test_a_repository_and_a_branch_are_made_when_asked_for(sender, hub) -> None:
    refused = sender.push(repo_id="acme/new")
    assert refused.outcome == "failed"
    assert "The export can create it" in refused.reason
    assert sender.push(repo_id="acme/new", creates=True).outcome == "sent"
    assert hub.writing.private == {"acme/new": True}
    assert "has no revision v2" in sender.push(branch="v2").reason
    result = sender.push(branch="v2", creates=True)
    assert hub.repository(REPO).branches["v2"] == result.commit != hub.repository(REPO).branches["main"]


def test_a_repository_without_a_commit_gets_its_first_one_once(sender, hub) -> None:
    empty = hub.repository("acme/empty")
    hub.writing.loses_answers_to_commits = 1
    result = sender.push(repo_id="acme/empty", creates=True)
    assert (result.outcome, result.commit) == ("sent", empty.branches["main"]), result.reason
    assert empty.commits == {result.commit: FILES}


def somebody_commits(hub: HubServer) -> None:
    hub.repository(REPO).commit(THEIRS | {"more.txt": b"more"})


@pytest.mark.parametrize(
    ("prepare", "outcome", "words"),
    [
        (lambda s: setattr(s, "token", "hf_wrong"), "failed", "does not accept the token"),
        (lambda s: setattr(s, "token", "hf_read"), "failed", "may not write to acme/tiny"),
        (lambda s: s.hub.writing.before.update(commit=lambda: somebody_commits(s.hub)), "failed",
         "Somebody else has committed to main"),
        (lambda s: s.hub.writing.answers.update(commit=[(409, {}, "conflict")]), "failed",
         "Somebody else has committed to main"),
        (lambda s: s.hub.writing.answers.update(batch=[(403, {}, "Private storage limit reached")]),
         "failed", "has no room for it: Private storage limit reached"),
        (lambda s: s.hub.writing.answers.update(put=[(507, {}, "")]), "failed", "has no room"),
        (lambda s: s.hub.writing.answers.update(put=[(403, {}, "")] * 3), "failed",
         "refuses what it is sent"),
        (lambda s: s.hub.writing.answers.update(preupload=[(500, {}, "oops")] * 90), "interrupted",
         "has a fault of its own (HTTP 500). oops"),
        (lambda s: s.hub.writing.answers.update(preupload=[(418, {}, "teapot")]), "failed", "HTTP 418"),
        (lambda s: s.hub.writing.answers.update(preupload=[(200, {}, "")]), "failed", "no list of files"),
        (lambda s: s.hub.writing.answers.update(commit=[(200, {}, "")]), "failed", "which commit it made"),
        (lambda s: setattr(s.hub.writing, "damages", True), "failed", "as it was sent"),
        (lambda s: s.store.blob_path(s.files[-1].sha256).unlink(), "failed", "The store has lost"),
        (lambda s: setattr(s.hub.faults, "answers", [(500, {})] * 90), "interrupted",
         "need not be sent again"),
    ],
)  # fmt: skip
def test_every_obstacle_has_its_own_words(sender, hub, prepare, outcome: str, words: str) -> None:
    before = dict(hub.repository(REPO).commits)
    prepare(sender)
    result = sender.push()
    assert result.outcome == outcome, result.reason
    assert words in result.reason
    ours = hub.repository(REPO).commits.keys() - before.keys()
    assert len(ours) <= 1


def test_a_limit_is_waited_for_and_told(sender, hub) -> None:
    hub.writing.answers.update(preupload=[(429, {"Retry-After": "1"}, "")])
    told: list[ImportProgress] = []
    assert sender.push(told).outcome == "sent"
    assert any("The hub asks to wait 1 s" in one.reason for one in told)
    assert told[-1].reason == ""


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://169.254.169.254/latest", "lies in a private network"),
        ("http://localhost:1/x", "lies in a private network"),
        ("http://[::ffff:127.0.0.1]:1/x", "lies in a private network"),
        ("file:///etc/passwd", "sent by file"),
        ("nowhere", "sent by nothing"),
    ],
)
def test_nothing_is_sent_where_this_server_must_not_talk_to(sender, hub, address: str, words: str) -> None:
    hub.writing.storage_address = address
    result = sender.push()
    assert result.outcome == "failed"
    assert words in result.reason
    assert hub.writing.calls["commit"] == 0
