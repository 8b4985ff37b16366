"""The command line in this process, before the real API; while a command waits, the world goes on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from django.test import Client

from accounts.models import User
from accounts.states import Role
from common.actor import Actor
from slipway.cli import main
from slipway.cli.context import CliEnvironment
from tests.cast import person, token_of
from tests.releases.world import Scene

URL = "http://testserver"


@dataclass
class Wire(httpx2.BaseTransport):
    """A transport to this process's API. `lose` answers get lost on their way back; all get the `refusal`.

    A request that `stumbles` answers, or raises for, never reached the API.
    """

    lose: int = 0
    refusal: Mapping[str, Any] | None = None
    stumbles: Callable[[httpx2.Request], httpx2.Response | None] = lambda request: None
    sent: list[httpx2.Request] = field(default_factory=list)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if (answer := self.stumbles(request)) is not None:
            return answer
        self.sent.append(request)
        if self.refusal is not None:
            return httpx2.Response(self.refusal["status"], json=self.refusal)
        # Django's own client: httpx2's WSGITransport would close the connection of the test's transaction.
        response = Client().generic(
            request.method,
            request.url.raw_path.decode(),
            request.read(),
            content_type=request.headers.get("Content-Type", ""),
            headers=dict(request.headers),
        )
        if self.lose:
            self.lose -= 1
            raise httpx2.ReadError("connection reset by peer", request=request)
        return httpx2.Response(response.status_code, headers=dict(response.items()), content=response.content)


@dataclass(frozen=True)
class CommandResult:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The only thing on stdout, as JSON."""
        return orjson.loads(self.out)


class Terminal:
    """`terminal("release", "status", "1")` is `slipway release status 1`; pauses call `while_waiting`."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.wire = Wire()
        self.token = ""
        self.while_waiting: Callable[[], object] = lambda: None
        self.waited: list[float] = []
        """Seconds of each pause."""
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: object, token: str | None = None) -> CommandResult:
        token = self.token if token is None else token
        outside = CliEnvironment(transport=self.wire, sleep=self._pause)
        self._monkeypatch.setenv("SLIPWAY_TOKEN", token)
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["--url", URL, *map(str, arguments)], outside=outside)
        said = self._capsys.readouterr()
        return CommandResult(int(ended.value.code or 0), said.out, said.err)

    def _pause(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.while_waiting()


@pytest.fixture
def terminal(
    db: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Terminal:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("SLIPWAY_URL", "SLIPWAY_TOKEN_FILE", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal(capsys, monkeypatch)


@pytest.fixture
def scene(db: None, monkeypatch: pytest.MonkeyPatch, terminal: Terminal) -> Scene:
    """Version 1 serves, version 2 is ready; who types is the one who asks for releases."""
    scene = Scene(monkeypatch)
    kernel = scene.worker()
    terminal.token = token_for(scene.requester)
    terminal.while_waiting = lambda: scene.tick(kernel)
    return scene


def token_for(actor: Actor) -> str:
    return token_of(User.objects.get(pk=actor.user_id))


@pytest.fixture
def developer(terminal: Terminal) -> str:
    terminal.token = token_of(person("ada", vision=Role.DEVELOPER))
    return terminal.token
