"""`manage.py sample`, without what it plays."""

import signal
from pathlib import Path

import pytest
from django.core.management import call_command

from controlplane.management.commands import sample
from controlplane.sample.play import SampleRun


def test_what_it_says_is_in_a_file_at_once(tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SLIPWAY_HOME = tmp_path
    (tmp_path / "admin-token").write_text("token")
    seen = []

    def play(one: SampleRun, *, bad: bool) -> None:
        one.say("Waiting for your approval")
        seen.append((tmp_path / "out").read_text())

    monkeypatch.setattr(sample, "play", play)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with (tmp_path / "out").open("w") as out:
            call_command("sample", stdout=out)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == ["Waiting for your approval\n"]
