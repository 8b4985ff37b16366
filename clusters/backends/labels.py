"""Labels as Kubernetes takes them."""

import re
from collections.abc import Mapping

_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_VALUE = re.compile(r"([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?", re.ASCII)


def is_label(key: str, value: str) -> bool:
    return bool(_KEY.fullmatch(key) and _VALUE.fullmatch(value))


def label_faults(what: str, labels: Mapping[str, str]) -> list[str]:
    """Return a sentence for each invalid label."""
    return [f"{what}: {key}={value} is no label" for key, value in labels.items() if not is_label(key, value)]
