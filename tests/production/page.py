"""docs/PRODUCTION.md as somebody follows it who has an empty machine: its commands, word for word.

What is of this world is put in its place: paths lie under a directory, the project is cloned from this
checkout, and `useradd` makes the home alone.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2

from controlplane.environment import PROJECT
from tests.production.site import free_port

PAGE = PROJECT / "docs/PRODUCTION.md"
USERADD = """#!/bin/sh
while [ "$1" != --home-dir ]; do shift; done
exec mkdir -p "$2"
"""
PASSED_ON = ("PIP_", "npm_config_", "NPM_CONFIG_", "SSL_CERT", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
"""Where packages come from is this machine's business."""


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str


def blocks(heading: str) -> list[Block]:
    """The blocks of code under a heading of the page, in their order."""
    page = PAGE.read_text()
    part = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert part, f"docs/PRODUCTION.md has no part {heading!r}"
    found = re.findall(r"^```(\w*)\n(.*?)^```$", part[1], re.MULTILINE | re.DOTALL)
    return [Block(language, text) for language, text in found]


def roles() -> list[str]:
    return re.findall(r"^\| `slipway-server (\w+)` \|", PAGE.read_text(), re.MULTILINE)


class Machine:
    """A machine with nothing on it but Python, Node.js and git."""

    def __init__(self, root: Path, *, database_url: str, redis_url: str, programs: str) -> None:
        self.root = root
        self.port, self.gateway_port = free_port(), free_port()
        self.answers = {
            "SLIPWAY_DATABASE_URL": database_url,
            "SLIPWAY_REDIS_URL": redis_url,
        }
        """What stands for `...` in the page."""
        self.beside = {
            "SLIPWAY_PORT": str(self.port),
            "SLIPWAY_GATEWAY_PORT": str(self.gateway_port),
            "SLIPWAY_GATEWAY_ADMIN_PORT": str(free_port()),
        }
        """The usual ports may be taken on this machine."""
        stubs = root / "usr/bin"
        stubs.mkdir(parents=True)
        (stubs / "useradd").write_text(USERADD)
        (stubs / "useradd").chmod(0o755)
        (stubs / "python3").symlink_to(sys.executable)
        for directory in ("srv", "backups", "elsewhere"):
            (root / directory).mkdir(exist_ok=True)
        self.environment = {
            "PATH": os.pathsep.join([str(stubs), programs, os.environ["PATH"]]),
            "HOME": str(root),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{PROJECT}.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://example.org/slipway.git",
            **{name: text for name, text in os.environ.items() if name.startswith(PASSED_ON)},
        }
        self.units: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def app(self) -> Path:
        return self.root / "srv/slipway/app"

    @property
    def home(self) -> Path:
        return self.root / "srv/slipway/home"

    def here(self, text: str) -> str:
        return re.sub(r"(?<![\w.])/(srv/slipway|backups|elsewhere)\b", rf"{self.root}/\1", text)

    def sh(self, script: str, *, at: Path | None = None) -> str:
        """Return the script's output. The installation's `bin`, with `slipway-server`, is in the path."""
        path = f"{self.app / '.venv/bin'}{os.pathsep}{self.environment['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.here(script)],
            cwd=at or (self.app if self.app.exists() else self.root),
            env=self.environment | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-2_000:]}{done.stderr[-4_000:]}"
        return done.stdout

    def write_settings(self, block: str, **others: str) -> None:
        """`.env` from the page: a value of dots is answered, a key by the command that stands beside it."""
        lines = []
        command = ""
        for line in block.splitlines():
            told, _, comment = line.partition("#")
            name, _, value = told.strip().partition("=")
            command = comment.strip() if comment.strip().startswith("python3") else command
            if name in self.answers or "..." in value:
                value = self.answers.get(name) or self.sh(command).strip()
            lines.append(f"{name}={others.get(name, self.here(value))}")
        lines += [f"{name}={value}" for name, value in self.beside.items()]
        (self.app / ".env").write_text("\n".join(lines) + "\n")

    def settings(self) -> Mapping[str, str]:
        told = (line.partition("=") for line in (self.app / ".env").read_text().splitlines())
        return {name: value for name, _, value in told}

    def start(self, role: str) -> None:
        """Start the role as systemd would, from the unit that is shipped."""
        units = self.app / "deploy/host/systemd"
        (unit,) = units.glob(f"slipway-{role}*.service")
        text = (units / "slipway-.service.d/slipway.conf").read_text() + unit.read_text()
        lines = [line.partition("=") for line in self.here(text.replace("%i", str(self.port))).splitlines()]
        said = {name: value for name, _, value in lines}
        command = re.sub(r"(--health-port) \d+", lambda found: f"{found[1]} {free_port()}", said["ExecStart"])
        variables = dict(value.split("=", 1) for name, _, value in lines if name == "Environment")
        with (self.root / f"{role}.log").open("ab") as log:
            self.units[role] = subprocess.Popen(
                shlex.split(command),
                cwd=said["WorkingDirectory"],
                env=self.environment | variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self, *, at_once: bool = False) -> None:
        for role, process in self.units.items():
            # A node that is killed leaves its model workers to the next one.
            process.send_signal(signal.SIGKILL if at_once and role != "node" else signal.SIGTERM)
        for process in self.units.values():
            process.wait(60)
        self.units.clear()

    def lose(self) -> None:
        """All but the installation."""
        self.stop(at_once=True)
        shutil.rmtree(self.home)
        (self.app / ".env").unlink()

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-3_000:]}" for path in self.root.glob("*.log"))

    def through_the_proxy(self, token: str) -> httpx2.Client:
        """Return a client that sends what nginx sends when it is set up as the page has it."""
        headers = {
            "Host": "slipway.example.org",
            "X-Forwarded-For": "203.0.113.7",
            "X-Forwarded-Proto": "https",
            "Authorization": f"Bearer {token}",
        }
        return httpx2.Client(base_url=f"http://127.0.0.1:{self.port}/api/v1/", headers=headers, timeout=60)

    def served_by(self) -> str:
        """The version that answers at the gateway; empty: none."""
        body = {"model": "parrot", "prompt": "hello", "max_tokens": 4}
        url = f"http://127.0.0.1:{self.gateway_port}/talk/v1/completions"
        try:
            told = httpx2.post(url, json=body, timeout=20)
        except httpx2.TransportError:
            return ""
        return told.headers.get("x-slipway-version", "") if told.status_code == 200 else ""
