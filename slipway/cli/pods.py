"""What options of commands say of workers' resources and pods, as REST takes it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson
import typer

from slipway.exits import CommandFailed, Exit


def amounts(cpus: str, memory: str) -> dict[str, str]:
    """`4:8` each: what is set aside, and the limit."""
    found: dict[str, str] = {}
    for given, least, most in ((cpus, "cpus", "cpu_limit"), (memory, "memory", "memory_limit")):
        wanted, _, limit = given.partition(":")
        found |= {key: value for key, value in ((least, wanted), (most, limit)) if value}
    return found


def pod_of(
    document: Any,
    *,
    node_selector: Iterable[str],
    tolerations: Iterable[str],
    env: Iterable[str],
    secret_env: Iterable[str],
) -> dict[str, Any]:
    """`document`, that of a file, with what the options say besides."""
    if not isinstance(document, dict):
        raise CommandFailed("--pod: the file must hold a JSON object.", Exit.USAGE)
    pod: dict[str, Any] = dict(document)
    for key, option, pairs, read in (
        ("node_selector", "--node-selector", node_selector, str),
        ("env", "--env", env, str),
        ("secret_env", "--secret-env", secret_env, _secret_key),
    ):
        if found := _pairs(option, pairs, read):
            pod[key] = {**(pod.get(key) or {}), **found}
    if told := [_toleration(one) for one in tolerations]:
        pod["tolerations"] = [*(pod.get("tolerations") or ()), *told]
    return pod


def read_json(path: Path, option: str) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except OSError as error:
        raise CommandFailed(f"{option} {path}: {error.strerror}.", Exit.USAGE) from None
    except orjson.JSONDecodeError as error:
        raise CommandFailed(f"{option} {path} is not JSON: {error}.", Exit.USAGE) from None


def _pairs(option: str, pairs: Iterable[str], read: Callable[[str], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        name, is_pair, value = pair.partition("=")
        if not is_pair or not name:
            raise typer.BadParameter(f"{pair}: write NAME=VALUE", param_hint=option)
        found[name] = read(value)
    return found


def _secret_key(text: str) -> dict[str, str]:
    secret, _, key = text.partition("/")
    if not secret or not key:
        raise typer.BadParameter(f"{text}: write NAME=SECRET/KEY", param_hint="--secret-env")
    return {"secret": secret, "key": key}


def _toleration(text: str) -> dict[str, str]:
    """As `kubectl taint` writes taints."""
    taint, _, effect = text.partition(":")
    key, is_pair, value = taint.partition("=")
    found = {"key": key} if key else {}
    if is_pair:
        found["value"] = value
    return found | ({"effect": effect} if effect else {})
