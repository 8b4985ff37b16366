"""The systemd units of deploy/host, as systemd itself reads them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.environment import PROJECT
from tests.production.page import roles

UNITS = PROJECT / "deploy/host/systemd"
ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSURE = 25
"""By `systemd-analyze security`; that of a unit without bounds is 96 of 100."""


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """Copies whose program is there, which systemd looks at; a template is named with its port."""
    shutil.copytree(UNITS, tmp_path, dirs_exist_ok=True)
    program = Path(sys.executable).with_name("slipway-server")
    for path in tmp_path.glob("*.service"):
        path.write_text(path.read_text().replace("/srv/slipway/app/.venv/bin/slipway-server", str(program)))
    return sorted(
        path.with_name(path.name.replace("@.", "@8000."))
        for path in tmp_path.glob("slipway-*.*")
        if path.is_file()
    )


def test_each_role_has_a_unit():
    named = {path.name.removeprefix("slipway-").split(".")[0].rstrip("@") for path in UNITS.glob("*.service")}
    assert named == {*roles(), "prepare", "backup"}


@pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze here")
def test_systemd_takes_every_unit_without_a_warning_and_finds_it_bounded(units: list[Path]):
    asked = [str(ANALYZE), "verify", "--man=no", *map(str, units)]
    read = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    assert (read.returncode, read.stderr) == (0, "")
    services = [str(unit) for unit in units if unit.suffix == ".service"]
    asked = [str(ANALYZE), "security", "--offline=true", f"--threshold={MOST_EXPOSURE}", *services]
    judged = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    assert judged.returncode == 0, judged.stdout
