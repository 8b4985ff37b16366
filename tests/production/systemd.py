"""A machine with a real systemd: a container of `systemd-nspawn` over the files of this one."""

import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from controlplane.environment import PROJECT
from tests.postgres import PR_SET_PDEATHSIG
from tests.production.site import eventually

LACKING = next(
    (program for program in ("systemd-nspawn", "nsenter", "useradd") if not shutil.which(program)), ""
)
if os.geteuid() != 0:
    LACKING = "root"
HOME = "/srv/slipway/home"
UNITS = PROJECT / "deploy/host/systemd"
BOOT = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
cd "$1/root"
cp -r "$2/." etc/systemd/system/
cp "$3" etc/systemd/system/slipway-.service.d/this-machine.conf
chroot . useradd --system --create-home --home-dir /srv/slipway slipway
ln -s "$4" srv/slipway/app
chroot . install -d -o slipway -g slipway -m 700 srv/slipway/home backups/slipway
exec systemd-nspawn --directory="$1/root" --machine="$5" --register=no --keep-unit --console=pipe \
    --capability=CAP_SYSLOG --boot -- --unit=basic.target
"""


class SystemdMachine:
    """`docs/PRODUCTION.md` followed up to the units. It shares the network, and writes to memory."""

    def __init__(self, place: Path, settings: Mapping[str, str]) -> None:
        place.mkdir()
        self._log = place.with_suffix(".log")
        conf = place.with_suffix(".conf")
        # The checkout and its Python may lie below /root, which the units do not see.
        seen = " ".join({sys.base_prefix, str(PROJECT)})
        lines = ["[Service]", "ProtectHome=tmpfs", f"BindReadOnlyPaths={seen}"]
        lines += [f'Environment="{name}={text}"' for name, text in settings.items()]
        conf.write_text("\n".join(lines))
        name = f"slipway-{secrets.token_hex(4)}"
        # In process numbers of its own, so that nothing of it outlives the process that is started here.
        alone = ["--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = ["unshare", *alone, "sh", "-c", BOOT, "sh"]
        libc = ctypes.CDLL(None)
        with self._log.open("wb") as output:
            self._container = subprocess.Popen(
                [*command, str(place), str(UNITS), str(conf), str(PROJECT), name],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            )
        try:
            eventually(lambda: self._init() is not None, seconds=60)
            eventually(lambda: self.systemctl("is-active", "basic.target").returncode == 0, seconds=60)
        except BaseException:
            self.stop()
            raise

    def _init(self) -> psutil.Process | None:
        """The systemd of the container."""
        assert self._container.poll() is None, self._log.read_text()
        inside = psutil.Process(self._container.pid).children(recursive=True)
        return next((process for process in inside if process.name() == "systemd"), None)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        init = self._init()
        assert init is not None, self._log.read_text()
        inside = ["nsenter", f"--target={init.pid}", "-m", "-u", "-i", "-p", "-C", *command]
        return subprocess.run(inside, capture_output=True, text=True, check=False, timeout=600)

    def systemctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("systemctl", "--no-pager", *arguments)

    def do(self, *arguments: str) -> None:
        """A command of systemctl, which is to succeed."""
        done = self.systemctl(*arguments)
        assert done.returncode == 0, f"{done.stderr}\n{self.journal()}"

    def properties(self, unit: str, *names: str) -> list[str]:
        return [self.systemctl("show", "--value", "-p", name, unit).stdout.strip() for name in names]

    def processes(self, unit: str) -> set[int]:
        """All in the unit's control group, by the numbers that they have in the container."""
        group = self.properties(unit, "ControlGroup")[0]
        # Wherever control groups of the first or the second version are mounted.
        places = f"/sys/fs/cgroup/systemd{group}/cgroup.procs /sys/fs/cgroup{group}/cgroup.procs"
        listed = self.run("sh", "-c", f"cat {places} 2>/dev/null")
        return {int(pid) for pid in listed.stdout.split()}

    def journal(self, units: Sequence[str] = ("slipway-*",)) -> str:
        return self.run("journalctl", "--no-pager", "-n", "200", *(f"--unit={unit}" for unit in units)).stdout

    def says(self, unit: str, words: str, *, times: int) -> None:
        """Wait until the unit has said the words so many times since the start of the machine."""
        deadline = time.monotonic() + 120
        while (said := self.journal([unit])).count(words) < times:
            assert time.monotonic() < deadline, said
            time.sleep(0.5)

    def inside(self, path: str) -> Path:
        """A path of the machine, for this one."""
        init = self._init()
        assert init is not None
        return Path(f"/proc/{init.pid}/root{path}")

    def stop(self) -> None:
        self._container.kill()
        self._container.wait()
