"""Who still needs a version: asked of the apps above, which the registry does not know."""

from collections.abc import Callable, Mapping, Sequence

UseCheck = Callable[[], Mapping[int, Sequence[str]]]
"""From ids of versions to their present uses in words, such as `service chat (stable)`."""

_checks: list[UseCheck] = []
_fallbacks: list[UseCheck] = []


def register_use_check(check: UseCheck) -> None:
    """Ask `check` before a version is deleted, and show its answer as where the version is served.

    It is called once for a page or a deletion and tells of all versions in use. Registering twice changes
    nothing.
    """
    if check not in _checks:
        _checks.append(check)


def unregister_use_check(check: UseCheck) -> None:
    _checks.remove(check)


def register_fallback_check(check: UseCheck) -> None:
    """Ask `check` which versions somebody may want to return to: no rule deletes them, a person may."""
    if check not in _fallbacks:
        _fallbacks.append(check)


def uses() -> dict[int, list[str]]:
    """The uses of every version that has any."""
    return _answers(_checks)


def fallbacks() -> dict[int, list[str]]:
    """For what each version that somebody may want to return to is the way back."""
    return _answers(_fallbacks)


def _answers(checks: Sequence[UseCheck]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for check in checks:
        for version_id, words in check().items():
            if words:
                found.setdefault(version_id, []).extend(words)
    return found
