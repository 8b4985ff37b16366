"""The home is its owner's alone, also when it was not before."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from controlplane.embedded.home import PORTS_OF, Home, HomeUnusable, check_ports
from controlplane.environment import PROJECT, Environment

pytestmark = pytest.mark.process


def modes(home: Path) -> dict[str, int]:
    """Return the modes of everything in the home that others have any right to."""
    found = [home, *home.rglob("*")]
    return {str(path): mode for path in found if (mode := stat.S_IMODE(path.lstat().st_mode)) & 0o077}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_a_home_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    former = os.umask(0o022)
    try:
        assert Home(tmp_path / "new" / "home").make() == []
    finally:
        os.umask(former)

    assert modes(tmp_path / "new" / "home") == {}


def test_a_home_that_others_could_read_is_closed_and_that_is_said(home: Path) -> None:
    Home(home).make()
    (home / "valkey" / "appendonlydir").mkdir()
    names = ("db.sqlite3", "db.sqlite3-wal", "valkey/appendonlydir/1.aof", "logs/web.log", "run/node-token")
    for name in names:
        (home / name).write_text("secret")
        (home / name).chmod(0o644)
    (home / "run").chmod(0o750)
    home.chmod(0o755)

    (said,) = Home(home).make()

    assert f"Others on this machine could read {home}" in said
    assert modes(home) == {}
    assert Home(home).make() == []


def test_what_a_link_leads_to_is_left_alone(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk"
    elsewhere.mkdir(mode=0o755)
    elsewhere.chmod(0o755)
    (home / "models").symlink_to(elsewhere)
    home.chmod(0o700)

    Home(home).make()

    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755


def test_a_directory_of_other_things_is_not_taken_over(home: Path) -> None:
    (home / "letters").write_text("mine")
    home.chmod(0o755)

    with pytest.raises(HomeUnusable, match="holds other files"):
        Home(home).make()

    assert stat.S_IMODE(home.stat().st_mode) == 0o755


def test_a_directory_of_everybody_is_refused(home: Path) -> None:
    home.chmod(0o1777)

    with pytest.raises(HomeUnusable, match="everybody's"):
        Home(home).make()


def test_a_home_of_another_person_that_others_can_read_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.chmod(0o777)
    monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid + 1)

    with pytest.raises(HomeUnusable, match="only its owner can end that"):
        Home(home).make()


def test_commands_with_the_embedded_settings_write_for_their_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environ = os.environ | {
        "SLIPWAY_HOME": str(home),
        "SLIPWAY_DATABASE_URL": "",
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded",
    }
    script = "import django, pathlib, sys; django.setup(); pathlib.Path(sys.argv[1], 'x').write_text('')"
    command = [sys.executable, "-c", f"import os; os.umask(0o022); {script}", str(home)]

    subprocess.run(command, cwd=PROJECT, env=environ, check=True, timeout=60)

    assert (home / "x").exists()
    assert modes(home) == {}


def test_ports_that_a_gateway_of_ours_holds_are_not_taken() -> None:
    with socket.socket() as gateway:
        gateway.bind(("127.0.0.1", 0))
        gateway.listen()
        env = Environment(port=gateway.getsockname()[1], gateway_port=1025, gateway_admin_port=1026)

        with pytest.raises(HomeUnusable, match="SLIPWAY_PORT: port"):
            check_ports(env)
        check_ports(env, held=("port", "gateway_port", "gateway_admin_port"))


def test_ports_of_the_samples_cluster_count_where_it_runs() -> None:
    env = Environment(port=1024, gateway_port=1025, gateway_admin_port=1026, sample_cluster_port=1025)
    everything = {name for names in PORTS_OF.values() for name in names} | {"port"}

    check_ports(env, held=everything)
    with pytest.raises(
        HomeUnusable, match="SLIPWAY_SAMPLE_CLUSTER_PORT and SLIPWAY_GATEWAY_PORT are both 1025"
    ):
        check_ports(env, held=everything, sample=True)


def test_a_full_disk_is_told_before_anything_is_started(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115 - closed by the probe
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full)

    with pytest.raises(HomeUnusable, match=r"is full\. Free some space"):
        Home(home).make()
