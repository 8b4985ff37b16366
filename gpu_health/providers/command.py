"""A provider behind a program of the installation: `PROGRAM ACTION OP_KEY`, the machine on its stdin."""

import json
import subprocess
from collections.abc import Sequence

from gpu_health.providers.base import Deed, DeedStatus, ProviderAway, ProviderMachine, told_of

WITHIN_SECONDS = 15.0
MOST_OUTPUT = 64 * 1024


class CommandProvider:
    """ACTION is `reboot`, `power_cycle`, `replace`, or `status` followed by one of them after OP_KEY. The
    program prints `{"state", "words"}` and ends with 0; with anything else it has not been heard."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = tuple(argv)

    def order(self, deed: Deed, machine: ProviderMachine, op_key: str, reason: str) -> DeedStatus:
        return self._run((str(deed), op_key), machine, reason)

    def status(self, deed: Deed, machine: ProviderMachine, op_key: str) -> DeedStatus:
        return self._run(("status", op_key, str(deed)), machine, "")

    def _run(self, words: Sequence[str], machine: ProviderMachine, reason: str) -> DeedStatus:
        given = json.dumps({**machine.to_dict(), "reason": reason}).encode()
        try:
            done = subprocess.run(
                [*self._argv, *words], input=given, capture_output=True, timeout=WITHIN_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise ProviderAway(f"{self._argv[0]} did not end within {WITHIN_SECONDS:g} s.") from None
        except OSError as error:
            raise ProviderAway(f"{self._argv[0]}: {error.strerror}.") from None
        if done.returncode != 0:
            said = done.stderr[-300:].decode("utf-8", "replace").strip().splitlines()
            raise ProviderAway(f"{self._argv[0]} ended with {done.returncode}. {said[-1] if said else ''}")
        try:
            return told_of(json.loads(done.stdout[:MOST_OUTPUT]))
        except ValueError:
            return told_of(None)
