"""A cluster's machines read the files of versions that run there, by ranges, and nothing else."""

import hashlib
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync

from accounts.models import ApiToken
from accounts.states import Right
from clusters.models import Cluster, FilesToken
from clusters.services.files_tokens import issue_files_token
from clusters.states import DeploymentState
from common.api.ranges import span_of
from common.errors import NotAllowed
from model_store.models import Check, CorruptBlob
from models_registry.models import Version
from models_registry.states import VersionState
from tests.cast import SYSTEM, Api, person, team, token_of
from tests.clusters.model_files import deployed, stored_version

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
WEIGHTS = bytes(range(256)) * 9_000
FILES = {"config.json": b"{}", "model.safetensors": WEIGHTS, "empty.txt": b""}
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(name="gpu", kind="kubernetes", team=team("vision"))


@pytest.fixture
def version(tmp_path, settings) -> Version:
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"
    return stored_version(team("vision"), FILES)


@pytest.fixture
def machine(cluster) -> Api:
    return Api(issue_files_token(actor=SYSTEM, cluster=cluster).text)


def content(answer) -> bytes:
    async def whole() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(whole)()


def test_the_list_tells_what_the_version_is_made_of_and_how_to_check_it(cluster, version, machine) -> None:
    deployed(cluster, version)
    answer = machine.get(f"model-files/{version.pk}/")
    assert answer.status_code == 200, answer.content
    told = answer.json()
    lines = "".join(f"{file['sha256']}  {file['path']}\n" for file in told["files"])
    assert hashlib.sha256(lines.encode()).hexdigest() == told["digest"] == version.digest
    assert told["size_bytes"] == sum(map(len, FILES.values()))
    assert (told["version"], answer["ETag"]) == ("story:v1", f'"{version.digest}"')
    again = machine.get(f"model-files/{version.pk}/", **{"If-None-Match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("asked", "status", "range_", "expected"),
    [
        (None, 200, None, WEIGHTS),
        ("bytes=0-0", 206, f"bytes 0-0/{len(WEIGHTS)}", WEIGHTS[:1]),
        ("bytes=1048570-2097199", 206, f"bytes 1048570-2097199/{len(WEIGHTS)}", WEIGHTS[1048570:2097200]),
        ("bytes=2303000-", 206, f"bytes 2303000-2303999/{len(WEIGHTS)}", WEIGHTS[2303000:]),
        ("bytes=2303000-99999999", 206, f"bytes 2303000-2303999/{len(WEIGHTS)}", WEIGHTS[2303000:]),
        ("bytes=-3", 206, f"bytes 2303997-2303999/{len(WEIGHTS)}", WEIGHTS[-3:]),
        ("bytes=0-1,5-6", 200, None, WEIGHTS),
        ("lines=1-2", 200, None, WEIGHTS),
        ("bytes=2304000-", 416, f"bytes */{len(WEIGHTS)}", None),
        ("bytes=-0", 416, f"bytes */{len(WEIGHTS)}", None),
    ],
)
def test_a_file_is_read_whole_or_by_a_range(
    cluster, version, machine, asked, status, range_, expected
) -> None:
    deployed(cluster, version)
    headers = {"Range": asked} if asked else {}
    answer = machine.get(f"model-files/{version.pk}/{SHA256}/", **headers)
    assert (answer.status_code, answer.get("Content-Range")) == (status, range_)
    assert answer["ETag"] == f'"{SHA256}"'
    if expected is not None:
        assert content(answer) == expected
        assert answer["Content-Length"] == str(len(expected))


def test_a_head_tells_the_size_and_sends_nothing(cluster, version, machine) -> None:
    deployed(cluster, version)
    answer = machine.call("HEAD", f"model-files/{version.pk}/{SHA256}/")
    assert (answer.status_code, answer["Content-Length"], answer.content) == (200, str(len(WEIGHTS)), b"")
    assert answer["Accept-Ranges"] == "bytes"


def test_a_condition_that_does_not_hold_sends_all_and_one_that_does_nothing(
    cluster, version, machine
) -> None:
    deployed(cluster, version)
    path = f"model-files/{version.pk}/{SHA256}/"
    assert machine.get(path, **{"If-None-Match": f'"{SHA256}"'}).status_code == 304
    assert machine.get(path, **{"Range": "bytes=0-1", "If-Range": '"another"'}).status_code == 200
    assert machine.get(path, **{"Range": "bytes=0-1", "If-Range": f'"{SHA256}"'}).status_code == 206


def test_only_versions_that_a_deployment_of_the_cluster_needs_are_to_be_had(
    cluster, version, machine
) -> None:
    path = f"model-files/{version.pk}/"
    assert machine.get(path).status_code == 404
    row = deployed(Cluster.objects.create(name="other", kind="kubernetes"), version)
    assert machine.get(path).status_code == 404
    type(row).objects.filter(pk=row.pk).update(cluster=cluster, state=DeploymentState.REMOVING)
    assert machine.get(path).status_code == 200
    assert machine.get(f"{path}{'0' * 64}/").status_code == 404
    adapter = {"pirate": {"version": version.pk, "label": "story:v1"}}
    type(row).objects.filter(pk=row.pk).update(
        version=stored_version(team("vision"), {"a": b"1"}, label="tale:v1"), adapters=adapter
    )
    assert machine.get(path).status_code == 200
    type(row).objects.filter(pk=row.pk).update(state=DeploymentState.REMOVED)
    answer = machine.get(f"{path}{SHA256}/")
    assert answer.status_code == 404
    assert "No deployment on the cluster gpu needs" in answer.json()["detail"]


def test_an_archived_version_goes_on_being_fetched_by_what_runs_it(cluster, version, machine) -> None:
    deployed(cluster, version)
    Version.objects.filter(pk=version.pk).update(state=VersionState.ARCHIVED)
    assert machine.get(f"model-files/{version.pk}/").status_code == 200
    Version.objects.filter(pk=version.pk).update(state=VersionState.DELETED)
    assert machine.get(f"model-files/{version.pk}/").status_code == 409


def test_what_a_check_found_damaged_is_not_sent_and_it_is_said_why(cluster, version, machine) -> None:
    deployed(cluster, version)
    check = Check.objects.create(asked_by_name="someone", bytes_per_second=1, state="done")
    CorruptBlob.objects.create(found_by=check, sha256=SHA256, size=len(WEIGHTS), mark="x", next_at=None)
    answer = machine.get(f"model-files/{version.pk}/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "30")
    assert "model.safetensors" in answer.json()["detail"]


def test_a_token_that_was_not_given_to_a_cluster_opens_nothing(cluster, version) -> None:
    deployed(cluster, version)
    path = f"model-files/{version.pk}/"
    ada = person("ada", vision="admin")
    assert Api(token_of(ada)).get(path).status_code == 403
    lacks = token_of(ada, scopes=[Right.FLEET_REPORT, Right.READ])
    FilesToken.objects.create(cluster=cluster, token=ada.tokens.latest("pk"))
    assert Api(lacks).get(path).status_code == 403
    assert Api("slp_nonsense").get(path).status_code == 401


def test_the_token_of_a_cluster_reads_files_and_nothing_else(cluster, version, machine) -> None:
    deployed(cluster, version)
    assert machine.get("models/").status_code == 403
    assert machine.get("clusters/gpu/").status_code == 403
    assert machine.post("heartbeats/", {"workers": []}).status_code == 403


def test_a_renewed_token_leaves_the_last_one_to_fetches_under_way(cluster, version) -> None:
    deployed(cluster, version)
    path = f"model-files/{version.pk}/"
    first, second = (Api(issue_files_token(actor=SYSTEM, cluster=cluster).text) for _ in range(2))
    assert [api.get(path).status_code for api in (first, second)] == [200, 200]
    third = Api(issue_files_token(actor=SYSTEM, cluster=cluster, lives=timedelta(days=1)).text)
    assert [api.get(path).status_code for api in (first, second, third)] == [401, 200, 200]
    fourth = Api(issue_files_token(actor=SYSTEM, cluster=cluster, keep_last=False).text)
    assert [api.get(path).status_code for api in (second, third, fourth)] == [401, 401, 200]
    assert ApiToken.objects.filter(revoked_at=None).get().scopes == [Right.FLEET_FETCH]


def test_only_whoever_operates_the_cluster_gets_a_token_made(cluster) -> None:
    from accounts.actors import of_user

    with pytest.raises(NotAllowed):
        issue_files_token(actor=of_user(person("eve", vision="developer")), cluster=cluster)
    assert issue_files_token(actor=of_user(person("op", vision="operator")), cluster=cluster).token.team


def test_a_range_is_understood_as_the_standard_says() -> None:
    assert span_of("bytes=5-2", 10) is None
    assert span_of("bytes=-", 10) is None
    assert span_of("bytes=-99", 10) == (0, 10)
    assert span_of("bytes=0-", 0) == (0, 0)
