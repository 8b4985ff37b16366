"""The only reader of the process environment; what may stand in it is in `controlplane.environment`.

A missing or malformed variable stops the process with one line that names it.
"""

import os
import sys
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dotenv import dotenv_values
from pydantic import ValidationError

from common.setting_types import SecretPart, url
from common.tracing import ENDPOINTS
from controlplane.authorities import trusting
from controlplane.environment import ENV_FILE, Environment, variable


def refuse(*lines: str) -> SystemExit:
    """Exit status 2 after one line per fault on stderr: what a process does with settings it cannot use."""
    for line in lines:
        sys.stderr.write(line + "\n")
    return SystemExit(2)


def read() -> Environment:
    """The environment, or exit status 2 with one line per faulty variable on stderr."""
    try:
        if strangers := _strangers_in_file():
            raise refuse(*strangers)
        return Environment()
    except ValidationError as error:
        raise refuse(*(_fault_line(fault) for fault in error.errors())) from None
    except (OSError, UnicodeDecodeError) as error:
        raise refuse(
            f"{ENV_FILE} cannot be read: {error}. Make it a UTF-8 text file of NAME=value lines."
        ) from None


def _fault_line(fault: Any) -> str:
    message = fault["msg"].removeprefix("Value error, ")
    if not fault["loc"]:
        return f"{message}. Give each its own."
    field = str(fault["loc"][0])
    return f"{variable(field)}: {message}. {Environment.model_fields[field].description}"


def _strangers_in_file() -> list[str]:
    """Return a line for each line of the file that would do nothing: it is meant. Raises OSError."""
    if not ENV_FILE.exists():
        return []
    names = {variable(field) for field in Environment.model_fields}
    lines = []
    for name in dotenv_values(ENV_FILE, encoding="utf-8"):
        if name.upper() in names:
            continue
        close = name.startswith("SLIPWAY_") and get_close_matches(name, names, n=1, cutoff=0.75)
        advice = _ADVICE.get(name) or (
            f"Did you mean {close[0]}?" if close else "Take it out, or set it in the process's environment."
        )
        lines.append(f"{ENV_FILE}: {name} is no setting of Slipway and would do nothing there. {advice}")
    return lines


_ADVICE = {
    "DJANGO_SETTINGS_MODULE": "Take it out: `slipway-server` runs with the settings for production, `bin/up` "
    "with those of one machine."
}


def secrets_of(settings: Environment) -> set[str]:
    """Every secret that a setting holds, by its kind: keys, passwords, those in URLs."""
    found: set[str] = set()
    for name, field in Environment.model_fields.items():
        hides = next((mark for mark in field.metadata if isinstance(mark, SecretPart)), None)
        value = getattr(settings, name)
        texts = value if isinstance(value, tuple) else (value,)
        if hides is SecretPart.ALL:
            found.update(texts)
        elif hides is SecretPart.PASSWORD:
            found.update(passwords for text in texts for passwords in _passwords_in(text))
    return found - {""}


def _passwords_in(url: str) -> set[str]:
    """Return the URL's password as it stands there, and as it is sent."""
    written = urlsplit(url).password or ""
    return {written, unquote(written)}


def misspelt_settings() -> list[str]:
    """Name variables that are no setting but nearly one, a line each. (Tests and the client have others.)"""
    names = {variable(field) for field in Environment.model_fields}
    strangers = [name for name in sorted(os.environ) if name.startswith("SLIPWAY_") and name not in names]
    return [
        f"{name} is no setting and does nothing. Did you mean {close[0]}?"
        for name in strangers
        if (close := get_close_matches(name, names, n=1, cutoff=0.85))
    ]


def require(*fields: str) -> None:
    """Exit status 2 with one line per variable that is missing or empty."""
    missing = [field for field in fields if not getattr(env, field)]
    if missing:
        raise refuse(
            *(f"{variable(f)} is not set. {Environment.model_fields[f].description}" for f in missing)
        )


def kubeconfig() -> Path | None:
    """The file that `kubectl` reads here by its own variable; None: it names none. Exit status 2 when it
    names several, or one that is not there."""
    named = os.environ.get("KUBECONFIG", "")
    if not named:
        return None
    file = Path(named).expanduser()
    if os.pathsep in named or not file.is_file():
        raise refuse(
            f"KUBECONFIG: {named} is not one file that is there. Make one of the cluster that is meant "
            "(kubectl config view --minify --flatten --raw > cluster.yaml) and name it."
        )
    return file.absolute()


def otlp_traces() -> str:
    """Return the address that traces are POSTed to, by OpenTelemetry's own variables; empty: there is none.
    Exit status 2 when its packages are missing, or it is no address.
    """
    traces, base = (os.environ.get(name, "") for name in ENDPOINTS)
    address = traces or (f"{base.rstrip('/')}/v1/traces" if base else "")
    if not address or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ""
    try:
        url(address, "http", "https")
    except ValueError as error:
        raise refuse(
            f"{ENDPOINTS[1]}: {error}. Traces go there by OTLP over HTTP, such as to port 4318."
        ) from None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise refuse(f"{ENDPOINTS[1]} is set, and traces need OpenTelemetry: install slipway[otel].")
    return address


def _trust_own_authorities() -> None:
    try:
        os.environ.update(trusting(env.ca_file, env.home / "run"))
    except (OSError, ValueError) as error:
        raise refuse(f"{variable('ca_file')}: {error}. {_description('ca_file')}") from None


def _description(field: str) -> str:
    return Environment.model_fields[field].description or ""


env = read()
if env.ca_file:
    _trust_own_authorities()
