"""What every protocol of hubs promises, against the tests' hub, which speaks them all."""

import hashlib
from collections.abc import Iterator

import pytest

from hubs.backends import base
from hubs.backends.base import HubClient, HubFile
from hubs.backends.kinds import hub_at
from hubs.states import HubKind
from tests.hubs.hub_server import HubServer, hub_server

REPO = "acme/tiny"
WEIGHTS = bytes(range(256)) * 1_000
FILES = {"config.json": b"{}", "nested/model.safetensors": WEIGHTS}


@pytest.fixture
def server() -> Iterator[HubServer]:
    with hub_server() as server:
        server.repository(REPO).commit(FILES)
        yield server


@pytest.fixture(params=HubKind.values)
def kind(request) -> str:
    return str(request.param)


@pytest.fixture
def hub(server, kind) -> HubClient:
    return speaking(server, kind)


def speaking(server: HubServer, kind: str, token: str = "") -> HubClient:
    trusted = (server.url.removeprefix("http://"),)
    return hub_at(server.url, kind=kind, token=token, trusted_hosts=trusted)


def read(hub: HubClient, file: HubFile, commit: str, **part: int) -> bytes:
    with hub.opened(REPO, commit, file, **part) as stream:
        return b"".join(stream.chunks)[part.get("offset", 0) - stream.start :]


def weights_of(hub: HubClient) -> tuple[str, HubFile]:
    snapshot = hub.snapshot(REPO, "main")
    return snapshot.commit, next(file for file in snapshot.files if file.size == len(WEIGHTS))


def test_branch_tag_and_commit_lead_to_one_commit(server, hub) -> None:
    repository = server.repository(REPO)
    first = repository.branches["main"]
    repository.branches["v1.0"] = first
    second = repository.commit(FILES | {"README.md": b"# Tiny\n"})
    assert [hub.commit_of(REPO, one) for one in ("main", "v1.0", first, second)] == [
        second,
        first,
        first,
        second,
    ]


def test_a_commit_lists_its_files_with_sizes_and_hashes(hub) -> None:
    snapshot = hub.snapshot(REPO, "main")
    assert {file.path: file.size for file in snapshot.files} == {
        path: len(content) for path, content in FILES.items()
    }
    _, weights = weights_of(hub)
    assert weights.sha256 == hashlib.sha256(WEIGHTS).hexdigest()
    assert all(file.sha256 or file.blob_id for file in snapshot.files)


def test_a_file_comes_whole_or_in_parts(server, hub) -> None:
    commit, weights = weights_of(hub)
    assert read(hub, weights, commit) == WEIGHTS
    assert read(hub, weights, commit, offset=1_000, length=500) == WEIGHTS[1_000:1_500]
    server.faults.ignores_ranges = True
    assert read(hub, weights, commit, offset=1_000) == WEIGHTS[1_000:]


def test_a_cut_connection_shows(server, hub) -> None:
    commit, weights = weights_of(hub)
    server.faults.cut_after = [70_000]
    with pytest.raises(base.HubUnreachable):
        read(hub, weights, commit)


@pytest.mark.parametrize(
    ("prepare", "token", "revision", "error"),
    [
        (lambda server: server.repositories.clear(), "", "main", base.NoSuchRepository),
        (lambda server: server.tokens.update({REPO: {"ok"}}), "", "main", base.NoSuchRepository),
        (lambda server: server.tokens.update({"acme/other": {"ok"}, REPO: {"no"}}), "ok", "main",
         base.NoSuchRepository),
        (lambda server: None, "", "v9", base.NoSuchRevision),
        (lambda server: None, "wrong", "main", base.HubTokenRefused),
        (lambda server: server.gated.add(REPO), "", "main", base.RepositoryGated),
        (lambda server: server.faults.answers.append((429, {"Retry-After": "7"})), "", "main",
         base.RateLimited),
        (lambda server: server.faults.answers.append((503, {})), "", "main", base.HubUnreachable),
        (lambda server: server.faults.answers.append((200, {})), "", "main", base.HubMisbehaves),
        (lambda server: server.faults.answers.append((418, {})), "", "main", base.HubMisbehaves),
    ],
)  # fmt: skip
def test_every_refusal_is_told_apart(server, kind, prepare, token, revision, error) -> None:
    prepare(server)
    with pytest.raises(error) as raised:
        speaking(server, kind, token).snapshot(REPO, revision)
    assert type(raised.value) is error
    if isinstance(raised.value, base.RateLimited):
        assert raised.value.retry_after_s == 7


def test_a_file_that_is_listed_and_not_there_is_told(hub) -> None:
    commit, weights = weights_of(hub)
    with pytest.raises(base.NoSuchFile, match=r"gone\.json"):
        read(hub, HubFile("gone.json", 2, weights.sha256), commit)


def test_a_token_goes_to_the_hub_and_not_where_it_redirects(server, kind) -> None:
    server.tokens[REPO] = {"ok"}
    with hub_server() as cdn:
        cdn.repositories = server.repositories
        commit = server.repository(REPO).branches["main"]
        server.faults.redirect_to = f"{cdn.url}/cdn/{REPO}/{commit}/nested/model.safetensors"
        trusted = tuple(one.url.removeprefix("http://") for one in (server, cdn))
        hub = hub_at(server.url, kind=kind, token="ok", trusted_hosts=trusted)
        assert read(hub, weights_of(hub)[1], commit) == WEIGHTS
        assert {token for _, _, token in server.requests} == {"Bearer ok"}
        assert [token for _, _, token in cdn.requests] == [""]


def test_modelscope_tells_a_commit_that_only_removed_files_by_its_first_digits(server) -> None:
    hub = speaking(server, HubKind.MODELSCOPE)
    removed = server.repository(REPO).commit({"config.json": FILES["config.json"]})
    assert hub.commit_of(REPO, "main") == removed[:8]


def test_modelscope_lists_that_may_be_cut_are_not_believed(server) -> None:
    server.repository(REPO).commit({f"{number}.txt": b"x" for number in range(3_000)})
    with pytest.raises(base.HubMisbehaves, match="lists no more"):
        speaking(server, HubKind.MODELSCOPE).snapshot(REPO, "main")
