"""What has happened to trust: told after the commit, ids only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyTrusted:
    """A team trusts a key, from now on."""

    key_id: int
