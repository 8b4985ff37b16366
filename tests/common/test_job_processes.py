"""Jobs that are processes: what ends them, what they may, and who finds them again."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from common import disk
from common.jobs import parent_watchdog
from common.jobs.notes import STARTED, JobNotes
from common.jobs.runners.subprocess import TIME_TO_LIVE_SECONDS
from common.jobs.spec import Ending, JobLimits, JobSpec, JobState, owner_of
from tests.contracts.test_job_runners import OWNER, PROJECT, ProcessRig, at_work, ended, started
from tests.patience import eventually

pytestmark = pytest.mark.stack


@pytest.fixture(autouse=True)
def _room(monkeypatch) -> None:
    monkeypatch.setattr(disk, "is_full", lambda: False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


@pytest.fixture
def rig(root) -> ProcessRig:
    return ProcessRig(root)


def supervisor_of(root: Path, spec: JobSpec) -> psutil.Process:
    note = JobNotes(root / spec.name).read(STARTED)
    assert note is not None
    return psutil.Process(note["pid"])


def test_a_job_that_swells_ends_of_its_limit_and_says_so(rig) -> None:
    spec = rig.spec("{'size': len(bytes(2**31))}", limits=JobLimits(memory_bytes=2**29))
    seen = ended(rig, started(rig, spec))
    assert (seen.state, seen.ending) == (JobState.FAILED, Ending.OUT_OF_MEMORY)
    assert seen.why == "It needed more memory than it may take."


def test_a_job_that_lasts_too_long_ends_with_all_that_it_has_started(rig, root) -> None:
    body = (
        "[job.report({'pid': __import__('subprocess').Popen(['sleep', '60']).pid}), "
        "__import__('time').sleep(60)]"
    )
    spec = started(rig, rig.spec(body, limits=JobLimits(wall_seconds=1.5)))
    child = psutil.Process(at_work(rig, spec).progress["pid"])
    seen = ended(rig, spec)
    assert (seen.ending, seen.why) == (Ending.TIME_LIMIT, "It took longer than it may.")
    eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_job_that_is_killed_tells_the_signal(rig, root) -> None:
    spec = started(rig, rig.spec("works"))
    at_work(rig, spec)
    supervisor_of(root, spec).children()[0].kill()
    seen = ended(rig, spec)
    assert (seen.ending, seen.signal, seen.why) == (Ending.KILLED, 9, "It was ended by signal 9.")


def test_a_job_dies_with_the_process_that_watches_it(rig, root) -> None:
    spec = started(rig, rig.spec("works"))
    at_work(rig, spec)
    supervisor = supervisor_of(root, spec)
    program = supervisor.children()[0]
    supervisor.kill()
    seen = ended(rig, spec)
    assert (seen.state, seen.ending) == (JobState.FAILED, Ending.KILLED)
    eventually(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE)


START = """
import sys, django.conf
from pathlib import Path
django.conf.settings.configure()
from common.jobs.runners.subprocess import SubprocessRunner
from tests.contracts.test_job_runners import ProcessRig
rig = ProcessRig(Path(sys.argv[1]))
rig.runner._is_full = lambda: False
rig.runner.start(rig.spec("works"))
sys.stdin.read()
"""


def test_a_job_outlives_its_starter_is_found_again_and_ends_with_its_stack(rig, root) -> None:
    def begin(*argv: object, group: int) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", *argv]
        return subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, process_group=group)

    spec = rig.spec("works")
    with begin("input()", group=0) as stack:
        with begin(START, root, group=stack.pid) as starter:
            at_work(rig, spec)
            starter.kill()
        time.sleep(0.6)
        assert rig.runner.observe(spec.name).state is JobState.RUNNING
        stack.kill()
    seen = ended(rig, spec)
    assert (seen.ending, seen.why) == (Ending.STACK_ENDED, "The stack that it worked for has ended.")


def test_a_start_that_was_cut_off_is_made_up_for(rig, root) -> None:
    spec = rig.spec("ends well")
    (root / spec.name).mkdir(parents=True)
    (root / spec.name / "lock").touch()
    assert rig.runner.observe(spec.name).state is JobState.GONE
    assert ended(rig, started(rig, spec)).result == {"answer": 42}


def test_a_job_knows_what_it_is_given_and_no_secret_lies_on_the_disk(rig, root, monkeypatch) -> None:
    monkeypatch.setenv("SLIPWAY_SECRET_KEY", "no job's business")
    monkeypatch.setenv("ERRAND", "flowers")
    body = "{'stdin': sys.stdin.read(), 'environ': dict(__import__('os').environ)}"
    secret = "s3cret" * 20_000
    spec = rig.spec(body, environment=("ERRAND", "NOT_SET"), stdin=secret.encode())
    seen = started(rig, spec) and ended(rig, spec)
    assert seen.result["stdin"] == secret
    environ = seen.result["environ"]
    assert (environ["ERRAND"], environ["PATH"]) == ("flowers", os.environ["PATH"])
    assert not environ.keys() & {"SLIPWAY_SECRET_KEY", "NOT_SET", "DJANGO_SETTINGS_MODULE"}
    files = {path.name: path.read_text() for path in (root / spec.name).iterdir()}
    del files["result.json"]
    assert not [name for name, text in files.items() if "s3cret" in text]


def test_a_job_without_the_network_reaches_nobody_or_it_is_said(rig) -> None:
    interfaces = "{'there': [name for _, name in __import__('socket').if_nameindex()]}"
    seen = ended(rig, started(rig, rig.spec(interfaces, limits=JobLimits(network=False, nice=3, cpus=1))))
    assert seen.result["there"] == ["lo"] or seen.unenforced == ("network",)


def test_a_program_that_is_not_there_is_told_of(rig) -> None:
    spec = replace(rig.spec("works"), argv=("no-such-program",))
    seen = ended(rig, started(rig, spec))
    assert (seen.state, seen.ending, seen.exit_code) == (JobState.FAILED, Ending.ERROR, 127)
    assert "no-such-program cannot be run" in seen.last_words


def test_a_job_needs_no_django(rig) -> None:
    seen = ended(rig, started(rig, rig.spec("{'django': 'django' in sys.modules}")))
    assert seen.result == {"django": False}


def test_what_nobody_collects_is_removed_in_time(rig, root) -> None:
    old = started(rig, rig.spec("ends well"))
    ended(rig, old)
    before = time.time() - TIME_TO_LIVE_SECONDS - 60
    os.utime(root / old.name, (before, before))
    ended(rig, started(rig, rig.spec("ends well", "errand:7:2")))
    assert rig.runner.observe(old.name).state is JobState.GONE


def test_the_stack_is_the_leader_of_the_process_group_and_no_other_of_its_number() -> None:
    stack = parent_watchdog.present()
    assert stack.pid in (os.getpgrp(), os.getpid())
    assert stack.is_alive
    assert not stack._replace(started=stack.started - 1).is_alive
    with subprocess.Popen(["sleep", "60"]) as child:
        leader = parent_watchdog.of(child.pid)
        assert leader.is_alive
        child.send_signal(signal.SIGKILL)
        eventually(lambda: not leader.is_alive)  # A zombie, for nobody has asked for its end yet.
    assert not leader.is_alive


def test_names_fit_kubernetes_and_tell_rows_apart() -> None:
    assert owner_of("models_registry.version", 7) == "models-registry-version-7"
    long = [owner_of("an_app_of_some_length.and_a_kind_whose_name_is_long", pk) for pk in (1, 11)]
    assert len(set(long)) == 2
    spec = JobSpec("key", long[0], ())
    assert len(spec.name) <= 63
    assert replace(spec, op_key="another").name != spec.name
    assert owner_of("toys.errand", 7) == OWNER
