"""A container's command and environment, as a process of this computer has them."""

import re
from collections.abc import Mapping, Sequence

_VARIABLE = re.compile(r"\$(\$|\(([A-Za-z_][A-Za-z0-9_]*)\))")


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes does it: what is not known stays, `$$` is a dollar."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] == "$" else environment.get(found[2], found[0])

    return _VARIABLE.sub(value, text)


def mapped(text: str, mounts: Mapping[str, str]) -> str:
    """Replace paths of the container by paths of this computer."""
    option, equals, value = text.partition("=")
    path = value if equals and option.startswith("--") else text
    for mount in _longest_first(mounts):
        if path == mount or path.startswith(f"{mount}/"):
            mapped = mounts[mount] + path[len(mount) :]
            return f"{option}={mapped}" if path is value else mapped
    return text


def _longest_first(mounts: Mapping[str, str]) -> Sequence[str]:
    return sorted(mounts, key=len, reverse=True)
