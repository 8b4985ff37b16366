"""Model files come to a machine: whole or not at all, whatever is cut, killed, spoilt or full."""

import hashlib
import resource
import signal
import subprocess
import sys
import time

import pytest

from model_store.fetch_progress import FetchProgress
from serving.fetch import __main__ as fetch
from tests.patience import eventually
from tests.serving.fetch_rig import BIG, WINDOW, Rig, rig
from tests.serving.files_server import (
    cuts,
    drops,
    passes,
    says,
    sends_all,
    spoils,
)

__all__ = ["rig"]
pytestmark = [pytest.mark.any_database]


def test_a_version_comes_whole_and_each_content_once(rig: Rig) -> None:
    assert rig.run() == 0
    assert rig.has_all()
    assert rig.left_over() == set()
    assert rig.files.sent_bytes() == len(BIG) + 2
    one, other = rig.directory / "model.safetensors", rig.directory / "deep/er/copy.bin"
    assert one.stat().st_ino == other.stat().st_ino
    assert oct(one.stat().st_mode)[-3:] == "444"
    assert oct(rig.directory.stat().st_mode)[-3:] == "755"


def test_what_is_here_needs_no_control_plane(rig: Rig) -> None:
    assert rig.run() == 0
    rig.files.requests.clear()
    assert rig.run(url="http://127.0.0.1:9") == 0
    assert rig.files.requests == []


def test_another_version_brings_only_what_is_new(rig: Rig) -> None:
    assert rig.run() == 0
    rig.files.requests.clear()
    rig.files.files["new.txt"] = b"new"
    rig.files.by_sha256[hashlib.sha256(b"new").hexdigest()] = b"new"
    assert rig.run() == 0
    assert rig.has_all()
    assert rig.files.sent_bytes() == 3


def test_after_cuts_it_goes_on_where_it_was(rig: Rig, capsys) -> None:
    faults = [passes, cuts(1_000), cuts(1_000), cuts(1_000), drops, cuts(0)]
    rig.files.faults = [*faults, says(503, "Busy.", Retry_After="1"), says(429)]
    assert rig.run(connections=1, patience_seconds=60) == 0
    assert rig.has_all()
    assert rig.files.sent_bytes() < len(BIG) + 8 * WINDOW
    assert "Busy. Trying again in" in capsys.readouterr().err
    # After a cut it asked for the rest of that window alone, whichever it was.
    begins = [int(span.removeprefix("bytes=").partition("-")[0]) for _, span in rig.files.requests if span]
    assert any(begin % WINDOW for begin in begins)


def test_a_byte_that_was_changed_on_the_wire_is_noticed_and_fetched_again(rig: Rig) -> None:
    rig.files.faults = [passes, spoils]
    assert rig.run() == 0
    assert rig.has_all()


def test_a_content_that_is_wrong_at_the_source_is_refused(rig: Rig, capsys) -> None:
    rig.files.by_sha256[hashlib.sha256(BIG).hexdigest()] = BIG[:-1] + b"!"
    assert rig.run() == 6
    assert not rig.directory.exists()
    assert "is damaged: check the store" in capsys.readouterr().err


def test_what_the_disk_has_lost_is_fetched_again(rig: Rig) -> None:
    assert rig.run() == 0
    kept = next((rig.cache / "cache").rglob(hashlib.sha256(BIG).hexdigest()))
    kept.chmod(0o644)
    kept.write_bytes(BIG[:-1] + b"!")
    (rig.directory / "model.safetensors").unlink()
    assert rig.run() == 0
    assert rig.has_all()


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        (says(401, "This token is expired."), 3, "This token is expired. Renew the cluster's token"),
        (says(403, "This token is of no cluster."), 3, "Put the cluster's own token"),
        (says(404, "No deployment needs it."), 3, "No deployment needs it. Is the deployment removed"),
        (says(409, "story:v1 is deleted."), 3, "story:v1 is deleted."),
    ],
)
def test_a_refusal_is_told_with_what_to_do(rig: Rig, capsys, fault, status, words) -> None:
    rig.files.faults = [fault]
    assert rig.run() == status
    assert words in capsys.readouterr().err


def test_a_proxy_that_passes_no_ranges_on_is_named(rig: Rig, capsys) -> None:
    rig.files.faults = [passes, *[sends_all] * 9]
    assert rig.run() == 3
    assert "does not pass the header Range on" in capsys.readouterr().err


def test_a_list_with_another_digest_or_a_hostile_path_is_refused(rig: Rig, capsys) -> None:
    assert rig.run(digest="0" * 64) == 6
    assert "has the digest" in capsys.readouterr().err
    hostile = b'{"files": [{"path": "../../etc/passwd", "size": 1, "sha256": "%s"}]}' % (b"a" * 64)

    def lies(request) -> bool:
        request.answer(200, hostile)
        return True

    rig.files.faults = [lies]
    assert rig.run() == 6
    assert "The list of files is refused" in capsys.readouterr().err


def test_whoever_does_not_answer_is_waited_for_and_then_named(rig: Rig, capsys) -> None:
    began = time.monotonic()
    assert rig.run(url="http://127.0.0.1:9", patience_seconds=1.5) == 5
    assert time.monotonic() - began < 30
    told = capsys.readouterr().err
    assert "127.0.0.1:9 does not answer: Connection refused. Trying again" in told
    assert "Look at the address (store_url of the cluster)" in told


def test_a_full_disk_is_told_and_the_next_try_goes_on(rig: Rig) -> None:
    limit = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(BIG) // 2}, {len(BIG) // 2}))"
    )
    process = rig.start(before=limit)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 4, told
    assert "is full" in told
    assert "node_cache_gib" in told
    assert not rig.directory.exists()
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    rig.files.requests.clear()
    assert rig.run() == 0
    assert rig.has_all()
    assert rig.files.sent_bytes() < len(BIG)


def test_no_room_is_noticed_before_anything_comes(rig: Rig, capsys, monkeypatch) -> None:
    from model_store.backends.node_cache import NodeCache

    monkeypatch.setattr(NodeCache, "_free_bytes", lambda _: 1_000)
    assert rig.run() == 4
    assert "bytes are missing" in capsys.readouterr().err
    assert rig.files.sent_bytes() == 0


def test_two_pods_of_a_machine_fetch_it_once_and_both_tell_how_far_it_is(rig: Rig) -> None:
    rig.files.bytes_per_second = 300_000
    every = "from serving.fetch import __main__; __main__.TELL_EVERY_SECONDS = 0.1"
    two = [rig.start(before=every, connections=2) for _ in range(2)]
    told = [process.communicate(timeout=240)[1] for process in two]
    assert [process.returncode for process in two] == [0, 0], told
    assert rig.has_all()
    assert rig.files.sent_bytes() == len(BIG) + 2
    for text in told:
        progress = FetchProgress.of_log(text)
        assert progress is not None
        assert (progress.version, progress.size_bytes) == ("story:v1", 2 * len(BIG) + 2)


def test_whoever_waits_takes_over_from_one_that_is_killed(rig: Rig) -> None:
    rig.files.bytes_per_second = 100_000
    first = rig.start(connections=1)
    eventually(lambda: sum(1 for _, span in rig.files.requests if span) >= 3)
    second = rig.start(connections=1)
    time.sleep(0.5)
    first.kill()
    first.communicate()
    _, told = second.communicate(timeout=240)
    assert second.returncode == 0, told
    assert rig.has_all()
    assert rig.left_over() == set()


def test_a_pod_that_is_deleted_ends_at_once_and_keeps_what_has_come(rig: Rig) -> None:
    rig.files.bytes_per_second = 20_000
    process = rig.start(connections=1)
    eventually(lambda: len(rig.files.requests) >= 2)
    process.terminate()
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told.splitlines()[-1]) == (
        143,
        "serving.fetch: It was stopped. What has come is kept.",
    )


KILLED_AT = """
import os, signal
left = int(os.environ["KILL_AT"])
def counted(real):
    def step(*given, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **named)
    return step
for name in ("fsync", "link", "mkdir", "rename", "replace", "unlink", "utime", "fchmod", "rmdir", "write"):
    setattr(os, name, counted(getattr(os, name)))
"""


@pytest.mark.slow
def test_killed_at_every_step_it_leaves_nothing_half_and_the_next_one_ends_it(rig: Rig, monkeypatch) -> None:
    small = {"a.txt": b"a", "dir/b.txt": b"b" * 1_000}
    rig.files.files = small
    rig.files.by_sha256 = {hashlib.sha256(data).hexdigest(): data for data in small.values()}
    point = 0
    while True:
        point += 1
        rig.cache = rig.cache.with_name(f"machine-{point}")
        rig.cache.mkdir()
        monkeypatch.setenv("KILL_AT", str(point))
        process = rig.start(before=KILLED_AT)
        _, told = process.communicate(timeout=120)
        assert process.returncode in (0, -signal.SIGKILL), told
        assert rig.has_all() or not rig.directory.exists(), point
        assert rig.run() == 0, point
        assert rig.has_all(), point
        if process.returncode == 0:
            break
    assert point > 20


def test_a_progress_line_is_read_back_from_a_log() -> None:
    progress = FetchProgress("story:v1", 1_500_000_000, 3_000_000_000, 500_000_000)
    assert "left_seconds=3 (50 %, 1.5 of 3.0 GB, 500.0 MB/s)" in progress.line()
    log = f"2026 {FetchProgress('story:v1', 0, 3, 0).line()}\n{progress.line()}\nsomething else\n"
    assert FetchProgress.of_log(log) == progress
    assert FetchProgress.of_log("nothing") is None
    assert (
        FetchProgress("x", 0, 0, 0).line().startswith("x come_bytes=0 size_bytes=0 bytes_per_second=0 (100 %")
    )


def test_the_program_knows_no_django_and_nothing_of_the_control_planes_apps() -> None:
    code = (
        "import sys, serving.fetch.__main__;"
        "bad = {'django', 'rest_framework', 'celery', 'boto3', 'accounts', 'clusters', 'models_registry'};"
        "sys.exit(', '.join(bad & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("option", "words"),
    [({"digest": "abc"}, "64 hex digits"), ({"url": "ftp://x"}, "give the address of Slipway")],
)
def test_a_wrong_option_is_named(rig: Rig, capsys, option, words) -> None:
    with pytest.raises(SystemExit):
        rig.run(**option)
    assert words in capsys.readouterr().err


def test_without_a_token_it_says_which_one(rig: Rig, capsys, monkeypatch) -> None:
    monkeypatch.delenv(fetch.TOKEN)
    assert rig.run() == 2
    assert "give the pod the cluster's token" in capsys.readouterr().err
