"""Formats that run code enter by an exemption that covers them, are listed as code and scanned for advice."""

import io
import os
import pickle
import subprocess
import sys
import zipfile
from datetime import timedelta

import numpy
import pytest
from django.utils import timezone

from model_store.errors import FileRefused
from model_store.reading import InMemoryContent, OpenFile
from models_registry.errors import CodeNotAllowed
from models_registry.exemptions import check_code, code_of
from models_registry.models import CodeExemption, Version
from models_registry.services import exemptions, imports
from tests import cast
from tests.models_registry import builders as b
from trust.formats import pickle_scan
from trust.formats.identification import check_together, identify
from trust.formats.pickle_scan import PickleScan, advice_on

pytestmark = [pytest.mark.process, pytest.mark.any_database]


class Harmful:
    def __reduce__(self):
        return (os.system, ("touch ran",))


def checkpoint(payload: object) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(payload, 2))
        archive.writestr("archive/version", "3\n")
    return buffer.getvalue()


def array(payload: object) -> bytes:
    buffer = io.BytesIO()
    numpy.save(buffer, numpy.array([payload], dtype=object), allow_pickle=True)
    return buffer.getvalue()


RUNNABLE = {
    "pytorch_model.bin": (checkpoint({}), "pytorch"),
    "old.pt": (pickle.dumps({}, 2), "pickle"),
    "oldest.pkl": (pickle.dumps({}, 0), "pickle"),
    "vocabulary.npy": (array("a"), "numpy"),
    "weights.h5": (b"\x89HDF\r\n\x1a\n" + b"\0" * 40, "hdf5"),
    "model.keras": (checkpoint({}), "keras"),
}
HIDDEN = {
    "model.safetensors": pickle.dumps({}, 2),
    "notes.txt": pickle.dumps({}, 2),
    "archive": checkpoint({}),
    "program.bin": b"\x7fELF" + b"\0" * 60,
    "noise.pkl": b"\xff\xfe\xfd",
    "compiled.pyc": b"\xa7\r\r\n" + b"\0" * 20,
    "run.sh": b"rm -rf /\n",
}


@pytest.mark.parametrize("path", RUNNABLE)
def test_a_format_that_runs_code_enters_only_where_it_is_admitted(path: str) -> None:
    content, format = RUNNABLE[path]
    with pytest.raises(FileRefused, match="exempt its model with formats that run code"):
        identify(path, InMemoryContent(content))
    assert identify(path, InMemoryContent(content), admits_runnable=True).format == format


@pytest.mark.parametrize("path", HIDDEN)
def test_what_hides_what_it_is_enters_under_no_exemption(path: str) -> None:
    with pytest.raises(FileRefused):
        found = identify(path, InMemoryContent(HIDDEN[path]), admits_runnable=True)
        raise check_together([found])[0][0]


def scan(tmp_path, path: str, content: bytes, **how: float) -> PickleScan | None:
    file = tmp_path / "held"
    file.write_bytes(content)
    with file.open("rb") as opened:
        return advice_on(path, "pickle", OpenFile(opened.fileno(), len(content)), **how)


@pytest.mark.parametrize("path", ["m.bin", "m.pkl", "m.npy"])
def test_the_scan_names_what_a_pickle_would_call_and_calls_nothing(tmp_path, monkeypatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"m.bin": checkpoint, "m.pkl": pickle.dumps, "m.npy": array}[path](Harmful())
    advice = scan(tmp_path, path, content)
    assert [(one.name, one.level) for one in advice.findings] == [("posix.system", "dangerous")]
    assert advice.fault == ""
    assert not (tmp_path / "ran").exists()


def test_a_scan_that_fails_or_takes_too_long_says_so(tmp_path) -> None:
    assert "could not be read" in scan(tmp_path, "m.pkl", pickle.dumps(Harmful(), 4)[:-3]).fault
    assert "The scan failed: BadZipFile" in scan(tmp_path, "m.bin", b"PK\x03\x04" + b"\0" * 40).fault
    assert "longer than 0 s" in scan(tmp_path, "m.pkl", pickle.dumps({}), patience_seconds=0).fault
    assert "no file" in advice_on("m.pkl", "pickle", InMemoryContent(b"x")).fault
    assert advice_on("config.json", "json", InMemoryContent(b"{}")) is None


@pytest.mark.parametrize(
    "deed",
    [
        "import socket; socket.socket()",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "import os; os.fork()",
        "open('/etc/passwd')",
        "bytearray(3 * 1024**3)",
    ],
)
def test_a_scanner_that_is_taken_over_reaches_nothing(deed: str) -> None:
    script = (
        f"import socket, subprocess, urllib.request\nfrom {pickle_scan.__name__} import _shut\n_shut()\n"
        f"try:\n    {deed}\nexcept (OSError, MemoryError) as error:\n    print(type(error).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() in ("PermissionError", "MemoryError", "URLError", "OSError"), done.stderr


def exempt(admin, model, *, covers_runnable: bool) -> CodeExemption:
    until = timezone.now() + timedelta(days=30)
    return exemptions.exempt_code(
        actor=admin,
        team=model.team,
        model=model,
        until=until,
        reason="Known.",
        covers_runnable=covers_runnable,
    )


def imported(library, actor, model) -> Version:
    version = imports.import_version(actor=actor, model=model, source=str(library.root / "model"))
    library.settle()
    return Version.objects.get(pk=version.pk)


def test_an_import_admits_pickles_by_an_exemption_and_lists_them_as_code(
    library, actor, model, admin, client
) -> None:
    b.write(library.directory(), {"voice.pt": checkpoint(Harmful())})
    exempt(admin, model, covers_runnable=False)
    assert "exempt its model with formats that run code" in imported(library, actor, model).reason
    given = exempt(admin, model, covers_runnable=True)
    version = imported(library, actor, model)
    assert version.state == "ready", version.reason
    assert [one["path"] for one in code_of(version)] == ["voice.pt"]
    assert version.scan["pickles"] == [
        {
            "path": "voice.pt",
            "findings": [{"name": "posix.system", "level": "dangerous"}],
            "fault": "",
        }
    ]
    check_code(version)
    client.force_login(cast.person("dora", vision="viewer"))
    page = client.get(f"/models/tiny/{version.name}/").content.decode()
    assert "posix.system" in page
    assert "is advice" in page
    exemptions.end_exemption(actor=admin, exemption=given, reason="Enough.")
    with pytest.raises(CodeNotAllowed, match="with formats that run code"):
        check_code(version)


def test_rest_shows_whether_an_exemption_covers_formats(model) -> None:
    api = cast.Api(cast.token_of(cast.person("dora", vision="admin")))
    until = (timezone.now() + timedelta(days=30)).isoformat()
    body = {"team": "vision", "model": "tiny", "reason": "read", "until": until, "covers_runnable": True}
    assert api.post("code-exemptions/", body).json()["covers_runnable"] is True


def test_a_hub_brings_pickles_by_an_exemption_too(hubs, source, actor, admin, model) -> None:
    hubs.server.repository("acme/tiny").commit(b.model_files() | {"pytorch_model.bin": checkpoint({})})
    hubs.synced(source, actor)
    refused = Version.objects.get(model=model)
    assert (refused.state, "pickle" in refused.reason) == ("refused", True)
    exempt(admin, model, covers_runnable=True)
    imports.retry_import(actor=actor, version=refused)
    hubs.settle()
    refused.refresh_from_db()
    assert (refused.state, refused.scan["pickles"][0]["path"]) == ("ready", "pytorch_model.bin")
