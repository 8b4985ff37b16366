"""`slipway-server health ROLE`: the same answers for who can run a command and reach no port."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from controlplane.env import env, refuse
from controlplane.garbage import set_up_django

WITHIN_SECONDS = 5.0


def check_or_exit(role: str) -> None:
    """Exit status 0 or 1 after a line; 2 for what is no role."""
    if role not in _ROLES:
        raise refuse(f"{role} is no role. There are {', '.join(_ROLES)}.")
    problem = _ROLES[role]()
    if problem:
        sys.stderr.write(f"{role}: {problem}\n")
        raise SystemExit(1)
    sys.stdout.write(f"{role}: ready\n")


def _web() -> str:
    from django.conf import settings

    from controlplane.readiness_key import HEADER, readiness_key

    address = f"{env.local_url(env.port)}/readyz"
    request = urllib.request.Request(address, headers={HEADER: readiness_key(settings.SECRET_KEY)})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=WITHIN_SECONDS) as answer:  # noqa: S310  # our own address
            return _problem(json.load(answer))
    except urllib.error.HTTPError as error:
        return _problem(json.load(error))
    except (OSError, ValueError) as error:
        return f"{address} does not answer: {error}"


def _taker(role: str) -> Callable[[], str]:
    def check() -> str:
        set_up_django()
        from controlplane.server.health_port import role_readiness

        return _problem(role_readiness(role, with_details=True))

    return check


def _gateway() -> str:
    address = f"http://127.0.0.1:{env.gateway_admin_port}/ready"
    try:
        with urllib.request.urlopen(address, timeout=WITHIN_SECONDS) as answer:  # our own address
            answer.read()
    except OSError as error:
        return f"{address} does not answer: {error}"
    return ""


def _node() -> str:
    from clusters.backends.supervisor_rpc import Supervisor, SupervisorFault, SupervisorUnreachable
    from controlplane.embedded.home import Home

    home = Home(env.home)
    try:
        Supervisor(home.data.socket, home.programs, timeout_seconds=WITHIN_SECONDS).processes()
    except (SupervisorUnreachable, SupervisorFault) as error:
        return str(error)
    return ""


def _problem(report: Mapping[str, Any]) -> str:
    """Say why the role cannot do its work; empty when it can."""
    faults = [
        f"{name}: {part['detail']}"
        for name, part in report["parts"].items()
        if part["vital"] and not part["ok"]
    ]
    if report.get("draining"):
        faults.append("it is stopping, and finishes what it has")
    return "; ".join(faults)


_ROLES: Mapping[str, Callable[[], str]] = {
    "web": _web,
    "worker": _taker("worker"),
    "sweeper": _taker("sweeper"),
    "gateway": _gateway,
    "node": _node,
}


def problems_of_roles() -> dict[str, str]:
    """Return the problems of every role on this machine; empty: it is ready."""
    found = {}
    for role, ask in _ROLES.items():
        try:
            found[role] = ask()
        except Exception as error:
            # One that cannot be asked must not hide the others.
            found[role] = str(error) or type(error).__name__
    return found
