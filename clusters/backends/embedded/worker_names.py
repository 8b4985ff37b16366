"""Names of workers' programs: the deployment, a dash, the ordinal."""

from collections.abc import Iterable


def slot_of(program: str) -> tuple[str, int] | None:
    """(deployment, ordinal) of a worker's name; None for another part's."""
    deployment, dash, ordinal = program.rpartition("-")
    return (deployment, int(ordinal)) if dash and ordinal.isdecimal() else None


def parted(worker: str) -> tuple[str, int]:
    deployment, _, ordinal = worker.rpartition("-")
    return deployment, int(ordinal)


def workers_of(deployment: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if (slot := slot_of(name)) and slot[0] == deployment]
