"""Every secret that this installation has, to be taken out of what leaves it."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.db import DatabaseError

from common import resealing
from common.logs.redaction import HIDDEN, redacted
from common.sealed import CannotUnseal, unseal
from common.setting_types import SecretPart
from controlplane.env import env, secrets_of
from controlplane.environment import Environment

SHORTEST = 6
"""Characters: what is shorter stands in too many words."""
FILES = ("secret-key", "audit-key", "admin-token", "admin-password", "run/node-token")
"""In the home."""
SHOWN = frozenset(
    {"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "HOME"}
)
"""Variables of a process that may be shown besides our own settings; of others the name."""
SECRET_MEMBERS = ("secret", "token", "password", "passwd", "authorization", "cookie", "credential", "private")


class Secrets:
    """The values, and how text, JSON and settings are shown without them."""

    def __init__(self, values: Iterable[str]) -> None:
        known = {value for value in values if len(value) >= SHORTEST}
        written = {json.dumps(value)[1:-1] for value in known} | {quote(value, safe="") for value in known}
        self._known = known | written

    def text(self, text: str) -> str:
        return redacted(text, known=self._known)

    def json(self, value: Any) -> Any:
        """Redact what can be written as JSON, member by member."""
        if isinstance(value, Mapping):
            return {self.text(str(name)): self._member(str(name), one) for name, one in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.json(one) for one in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))

    def _member(self, name: str, value: Any) -> Any:
        is_named_so = isinstance(value, str) and any(word in name.lower() for word in SECRET_MEMBERS)
        return HIDDEN if is_named_so and value else self.json(value)

    def nowhere_in(self, content: bytes) -> bytes:
        """The last net: whatever way it came here."""
        for value in sorted(self._known, key=len, reverse=True):
            content = content.replace(value.encode(), HIDDEN.encode())
        return content

    def setting(self, name: str, value: Any) -> Any:
        """Redact a field of Environment, by its kind."""
        field = Environment.model_fields[name]
        if SecretPart.ALL in field.metadata:
            return HIDDEN if value else ""
        return self.json(list(value) if isinstance(value, tuple) else value)

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Redact a process's variables: settings by their kind, a few others; of the rest, names remain."""
        fields = {f"SLIPWAY_{name.upper()}": name for name in Environment.model_fields}
        shown = {}
        for name, value in sorted(environ.items()):
            if name in fields:
                shown[name] = str(self.setting(fields[name], value))
            else:
                shown[name] = self.text(value) if name in SHOWN else HIDDEN
        return shown


def known_secrets() -> tuple[set[str], list[str]]:
    """The values, and a line for each source that could not be asked."""
    found = secrets_of(env) | {settings.SECRET_KEY, settings.SLIPWAY_AUDIT_KEY}
    found |= set(settings.SECRET_KEY_FALLBACKS) | set(settings.SLIPWAY_AUDIT_KEY_FALLBACKS)
    found |= set(_from_files()) | set(_from_environment())
    problems = []
    try:
        found |= set(_from_database())
    except DatabaseError as error:
        problems.append(
            f"Secrets stored in the database could not be read ({str(error).strip()}): of these only what "
            "looks like one was taken out. Look through the logs before you pass them on."
        )
    return found, problems


def _from_files() -> Iterator[str]:
    for name in FILES:
        with suppress(OSError):
            yield (Path(settings.SLIPWAY_HOME) / name).read_text().strip()


def _from_environment() -> Iterator[str]:
    """Yield secrets of other programs, such as credentials of a bucket: whatever is named like one."""
    for name, value in os.environ.items():
        if any(word in name.lower() for word in (*SECRET_MEMBERS, "_key", "headers")):
            yield value
            yield from value.split("=", 1)[1:]


def _from_database() -> Iterator[str]:
    for column in resealing.columns():
        for row in column.model._base_manager.all().iterator(chunk_size=200):
            for text in column.texts(row).values():
                with suppress(CannotUnseal):
                    yield unseal(text, purpose=column.purpose)
