"""The roles of `bin/up` are forks of their supervisord that look as if their commands had started them."""

import json
import os
import subprocess
import sys

import pytest

from controlplane.embedded import preloaded, running
from controlplane.environment import PROJECT

WEB = (sys.executable, "-m", "controlplane.server", "web")
LOOK = """
import json, psutil
from controlplane.embedded import preloaded, running
preloaded._look_like(%r, %r)
process = psutil.Process()
print(json.dumps([[word for word in process.cmdline() if word], process.environ()]))
"""


@pytest.mark.process
@pytest.mark.parametrize("mark", ["7:web:/run/control.sock", "7:web:/" + "d" * 500])
def test_command_and_mark_stand_where_the_process_table_shows_them(mark: str) -> None:
    environ = os.environ | {running.MARK: preloaded.ROOM_FOR_MARK, "ZLAST": "kept"}
    said = subprocess.run(
        [sys.executable, "-c", LOOK % (WEB, mark)],
        cwd=PROJECT,
        env=environ,
        check=True,
        capture_output=True,
        timeout=60,
    ).stdout
    command, shown = json.loads(said)
    assert tuple(command) == WEB
    fits = len(mark) < len(preloaded.ROOM_FOR_MARK)
    assert shown[running.MARK] == (mark if fits else preloaded.ROOM_FOR_MARK)
    assert shown["ZLAST"] == "kept"


def test_only_roles_are_forked_and_only_where_their_code_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preloaded, "_is_loaded", lambda: True)
    assert preloaded.is_preloaded(WEB)
    assert preloaded.is_preloaded((*WEB[:3], "worker", "--processes", "1"))
    assert not preloaded.is_preloaded((*WEB[:3], "prepare"))
    assert not preloaded.is_preloaded(("/usr/bin/valkey-server", "--port", "0"))
    monkeypatch.setattr(preloaded, "_is_loaded", lambda: False)
    assert not preloaded.is_preloaded(WEB)
