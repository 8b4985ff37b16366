"""A kubeconfig as it can be handed in: with what its files hold, which are on this machine alone."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slipway.cli.files import text_of
from slipway.exits import CommandFailed, Exit

FILES = (("cluster", "certificate-authority"), ("user", "client-certificate"), ("user", "client-key"))
"""What of a context may be named by its file, and where it stands."""


def whole_kubeconfig(path: Path, *, named: str, context: str = "") -> str:
    """The text of the file, in which certificates and key of the context stand in place of their files.

    As of `kubectl config view --flatten`; other contexts stay as they are. A relative path begins where the
    kubeconfig is. What is no kubeconfig is left to the server's words. `named`: the option that named it.
    Raises CommandFailed.
    """
    import yaml  # other commands are spared it

    from kube.untrusted_yaml import BadYaml, load

    text = text_of(path, named=named)
    try:
        config = load(text)
    except BadYaml:
        return text
    is_changed = False
    for section, key in _named_files(config, context):
        file = path.parent / Path(str(section.pop(key))).expanduser()
        try:
            content = file.read_bytes()
        except OSError as error:
            raise CommandFailed(f"{named} {path} names {file}: {error.strerror}.", Exit.USAGE) from None
        # Data have precedence over a file.
        section[f"{key}-data"] = section.get(f"{key}-data") or base64.b64encode(content).decode()
        is_changed = True
    return yaml.safe_dump(config, sort_keys=False) if is_changed else text


def _named_files(config: Any, context: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Sections of the context, and the key in each that names a file."""
    if not isinstance(config, dict):
        return
    chosen = _entry(config, "context", context or config.get("current-context"))
    for inner, key in FILES:
        section = _entry(config, inner, chosen.get(inner))
        if section.get(key):
            yield section, key


def _entry(config: dict[str, Any], inner: str, name: Any) -> dict[str, Any]:
    """The cluster, user or context of that name; empty: there is none."""
    listed = config.get(f"{inner}s")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("name") == name and isinstance(one.get(inner), dict):
            found: dict[str, Any] = one[inner]
            return found
    return {}
