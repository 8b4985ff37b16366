"""Files that come part by part become a version, whatever happens on the way."""

import base64
import hashlib
from datetime import timedelta
from io import BytesIO

import pytest
from django.utils import timezone

from model_store.errors import UnknownUpload
from models_registry import files
from models_registry.errors import UnknownModel
from models_registry.models import Upload, UploadContent, Version
from models_registry.services import catalogue, uploads
from models_registry.states import UploadState
from tests import cast
from tests.models_registry import builders as b
from tests.models_registry.builders import sha256

pytestmark = pytest.mark.django_db
PART = 64
OF_ZEROS = f"sha-256=:{base64.b64encode(hashlib.sha256(bytes(64)).digest()).decode()}:"


def announced(contents: dict[str, bytes]) -> dict:
    rows = [{"path": path, "size": len(data), "sha256": sha256(data)} for path, data in contents.items()]
    return {"files": rows, "origin": "laptop:/work"}


class Uploader:
    """A client of the REST API that uploads to the model `tiny`."""

    def __init__(self, api: cast.Api, contents: dict[str, bytes], model: str = "tiny") -> None:
        self.api = api
        self.contents = {sha256(data): data for data in contents.values()}
        answer = api.post(f"models/{model}/uploads/", announced(contents))
        assert answer.status_code == 201, answer.json()
        self.begun = answer.json()
        self.path = f"models/{model}/uploads/{self.begun['id']}/"

    @property
    def missing(self) -> set[str]:
        return {one["sha256"] for one in self.api.get(self.path).json()["missing"]}

    def put(self, content: str, start: int | None = None, data: bytes | None = None, **headers: str):
        """Send the part that begins at `start`, or all of a content."""
        whole = self.contents[content]
        if start is None:
            body = whole if data is None else data
        else:
            body = whole[start : start + PART] if data is None else data
            headers["Content_Range"] = f"bytes {start}-{start + len(body) - 1}/{len(whole)}"
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.api.client.generic(
            "PUT",
            f"/api/v1/{self.path}blobs/{content}/",
            body,
            content_type="application/octet-stream",
            headers={"Authorization": f"Bearer {self.api.token}", **given},
        )

    def send_all(self) -> None:
        for content in self.missing:
            for start in range(0, len(self.contents[content]), PART):
                assert self.put(content, start).status_code == 200

    def complete(self, **body: object):
        return self.api.post(f"{self.path}complete/", body)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch) -> None:
    monkeypatch.setattr("model_store.upload_buffer.PART_BYTES", PART)


@pytest.fixture
def uploader(library, model, api) -> Uploader:
    return Uploader(api, b.model_files())


def test_what_was_uploaded_becomes_a_version_that_says_who_sent_it_from_where(library, uploader, api) -> None:
    assert uploader.begun["received_bytes"] == 0
    assert uploader.missing == set(uploader.contents)
    uploader.send_all()
    source = {"source": f"upload://{uploader.begun['id']}", "message": "first", "lineage": {"job": "ci 7"}}
    answer = api.post("models/tiny/versions/", source)
    assert answer.status_code == 202, answer.json()
    assert uploader.complete().json()["name"] == "v1"
    library.settle()
    shown = api.get("models/tiny/versions/v1/").json()
    assert shown["state"] == "ready", shown["reason"]
    assert {file["sha256"] for file in shown["files"]} == set(uploader.contents)
    told = [shown["source"][key] for key in ("kind", "uploaded_by", "address", "origin")]
    assert told == ["upload", "ada", "127.0.0.1", "laptop:/work"]
    ended = api.get(uploader.path).json()
    assert (ended["state"], ended["version"]) == ("done", "v1")
    library.store.check(files.manifest_of(Version.objects.get()))
    assert library.stored() == set(uploader.contents)


def test_only_what_the_actor_cannot_see_has_to_come(library, model, actor, api) -> None:
    library.ready(actor, model)
    same = Uploader(api, b.model_files())
    assert same.missing == set()
    more = Uploader(api, b.model_files() | {"notes.txt": b"new"})
    assert more.missing == {sha256(b"new")}
    bob = cast.api(cast.person("bob", audio="developer"))
    bob.post("models/", {"name": "other"})
    stranger = Uploader(bob, b.model_files(), model="other")
    assert stranger.missing == set(stranger.contents)
    for uploader in (same, more):
        uploader.send_all()
        assert uploader.complete().status_code == 202
    library.settle()
    assert {version.state for version in Version.objects.all()} == {"ready"}


def test_an_upload_of_the_same_files_goes_on_where_it_was(uploader, api) -> None:
    content = max(uploader.contents, key=lambda one: len(uploader.contents[one]))
    uploader.put(content, PART)
    again = Uploader(api, b.model_files())
    assert again.begun["id"] == uploader.begun["id"]
    assert api.get(f"{again.path}blobs/{content}/").json()["received"] == [[PART, 2 * PART - 1]]
    assert api.call("HEAD", f"{again.path}blobs/{content}/")["X-Received-Bytes"] == str(PART)


def test_parts_that_follow_one_another_come_in_one_request(library, uploader, api) -> None:
    content = max(uploader.contents, key=lambda one: len(uploader.contents[one]))
    whole = uploader.contents[content]
    size = len(whole)
    assert uploader.begun["request_bytes"] > 2 * PART
    assert uploader.put(content, PART).status_code == 200
    told = {"Content_Range": f"bytes 0-{3 * PART - 1}/{size}"}
    assert uploader.put(content, data=whole[: 3 * PART], **told).json()["received"] == [[0, 3 * PART - 1]]
    told = {"Content_Range": f"bytes {2 * PART}-{size - 1}/{size}"}
    assert uploader.put(content, data=whole[2 * PART :], **told).json()["is_whole"]
    uploader.send_all()
    assert uploader.complete().status_code == 202


def test_a_content_that_is_not_what_was_announced_begins_anew(library, uploader) -> None:
    content = max(uploader.contents, key=lambda one: len(uploader.contents[one]))
    others = range(PART, len(uploader.contents[content]), PART)
    assert uploader.put(content, 0, b"x" * PART).status_code == 200
    answers = [uploader.put(content, start) for start in others]
    assert answers[-1].status_code == 409
    assert "has to come again" in answers[-1].json()["detail"]
    assert content in uploader.missing
    assert uploader.complete().status_code == 409
    uploader.send_all()
    assert uploader.complete().status_code == 202
    library.settle()
    assert Version.objects.get().state == "ready"


def test_a_lie_that_only_the_import_finds_keeps_all_else_that_came(
    library, uploader, api, monkeypatch
) -> None:
    monkeypatch.setattr("model_store.backends.local_upload_buffer.CHECKED_AT_ONCE_BYTES", -1)
    content = sha256(b.model_files()["model.safetensors"])
    assert uploader.put(content, 0, b"x" * PART).status_code == 200
    uploader.send_all()
    assert uploader.complete().status_code == 202
    library.settle()
    version = api.get("models/tiny/versions/v1/").json()
    assert version["state"] == "failed"
    assert "model.safetensors: what came is not what was announced" in version["reason"]
    assert api.get(uploader.path).json()["state"] == "open"
    assert uploader.missing == {content}
    assert api.post("models/tiny/versions/v1/retry/", {}).status_code == 202
    library.settle()
    assert uploader.missing == {content}
    uploader.send_all()
    assert uploader.complete().json()["name"] == "v1"
    library.settle()
    assert Version.objects.get().state == "ready"
    assert library.stored() == set(uploader.contents)


def test_what_must_not_enter_is_refused_by_name_before_a_byte_and_by_content_after(
    library, model, api, uploader
) -> None:
    for path in ("../evil.json", "model.pkl", ".git/config", "a/../b.txt", "C:/x.json"):
        answer = api.post("models/tiny/uploads/", announced({path: b"{}"}))
        assert answer.status_code == 400, path
        assert answer.json()["errors"]["files"]
    twins = announced({"a.json": b"{}", "A.json": b"[]"})
    assert "upper and lower case" in str(api.post("models/tiny/uploads/", twins).json())
    assert api.get(uploader.path).json()["state"] == "open"
    elf = Uploader(api, {"model.safetensors": b"\x7fELF" + b"\0" * 200})
    elf.send_all()
    assert elf.complete().status_code == 202
    library.settle()
    assert Version.objects.get().state == "refused"
    assert api.get(elf.path).json()["state"] == "refused"


@pytest.mark.parametrize(
    ("headers", "data", "words"),
    [
        ({"Content_Range": "bytes 0-62/%d"}, b"x" * 63, "are no part"),
        ({"Content_Range": "bytes 1-64/%d"}, b"x" * 64, "are no part"),
        ({"Content_Range": "bytes 64-63/%d"}, b"", "are no part"),
        ({"Content_Range": "bytes 0-6399/%d"}, b"x" * 6400, "are no part"),
        ({"Content_Range": "bytes 0-63/9"}, b"x" * 64, "as announced, not 9"),
        ({"Content_Range": "octets 0-63/9"}, b"x" * 64, "has the form"),
        ({"Content_Range": "bytes 0-63/%d"}, b"x" * 63, "Send it again"),
        ({"Content_Range": "bytes 0-63/%d"}, b"x" * 65, "longer than"),
        ({"Content_Range": "bytes 0-63/%d", "Content_Digest": "sha-256=:x:"}, b"x" * 64, "has the form"),
        ({"Content_Range": "bytes 0-63/%d", "Content_Digest": OF_ZEROS}, b"x" * 64, "damaged on the way"),
        ({}, b"x", "say which by Content-Range"),
    ],
)  # fmt: skip
def test_a_part_that_is_not_what_its_headers_say_is_refused(uploader, headers, data, words) -> None:
    content = max(uploader.contents, key=lambda one: len(uploader.contents[one]))
    size = len(uploader.contents[content])
    told = {name: value.replace("%d", str(size)) for name, value in headers.items()}
    answer = uploader.put(content, data=data, **told)
    assert answer.status_code == 400, answer.content
    assert words in str(answer.json()["errors"])
    assert uploader.api.get(f"{uploader.path}blobs/{content}/").json()["received"] == []


def test_a_content_that_was_not_announced_is_not_taken(uploader) -> None:
    uploader.contents[sha256(b"y")] = b"y"
    assert uploader.put(sha256(b"y")).status_code == 404


def test_of_two_who_complete_at_once_both_get_the_one_version(library, uploader, actor) -> None:
    uploader.send_all()
    first, second = (Upload.objects.select_related("model__team").get() for _ in range(2))
    made = uploads.complete_upload(actor=actor, upload=first, version="good")
    assert uploads.complete_upload(actor=actor, upload=second, version="good").pk == made.pk
    assert Version.objects.count() == 1


def test_what_nobody_touches_for_a_day_is_given_up(library, uploader, actor) -> None:
    content = min(uploader.contents)
    upload = Upload.objects.select_related("model").get()
    library.clock.at = timezone.now()
    library.worker().sweep()
    library.clock.pass_(timedelta(hours=23))
    Upload.objects.update(touched_at=library.clock())
    library.clock.pass_(timedelta(hours=2))
    library.worker().sweep()
    assert Upload.objects.get().state == UploadState.OPEN
    library.clock.pass_(timedelta(hours=23))
    for _ in range(3):
        library.worker().sweep()
    assert Upload.objects.get().state == UploadState.EXPIRED
    assert library.stored() == set()
    assert uploader.put(content, 0).status_code == 409
    with pytest.raises(UnknownUpload):
        files.buffer_of(upload).write(
            UploadContent(sha256=content, size=9, is_known=False), parts=range(1), body=BytesIO()
        )


def test_the_uploads_to_a_model_end_with_it(library, uploader, model, actor) -> None:
    catalogue.delete_model(actor=actor, model=model)
    library.settle()
    assert Upload.objects.get().state == UploadState.CANCELLED
    assert library.stored() == set()
    with pytest.raises(UnknownModel):
        uploads.begin_upload(actor=actor, model=model, files=announced(b.model_files())["files"])


def test_a_cancelled_upload_leaves_nothing(library, uploader, api) -> None:
    uploader.send_all()
    uploader.complete()
    answer = api.post(f"{uploader.path}cancel/", {"reason": "wrong branch"})
    assert answer.json()["state"] == "cancelled"
    assert answer.json()["reason"] == "By ada. wrong branch"
    library.settle()
    assert Version.objects.get().state == "failed"
    assert library.stored() == set()
    assert api.post(f"{uploader.path}cancel/", {}).status_code == 409


def test_a_part_of_a_small_file_is_told_that_it_comes_whole(uploader) -> None:
    content = min(uploader.contents, key=lambda one: len(uploader.contents[one]))
    size = len(uploader.contents[content])
    answer = uploader.put(content, data=b"x", Content_Range=f"bytes 0-0/{size}")
    assert answer.json()["errors"]["body"] == [f"Bytes 0-0 are no part: it comes in one, of {size} bytes."]
