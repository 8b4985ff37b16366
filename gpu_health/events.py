from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FindingOpened:
    """A fault of a machine or GPU was judged to be one."""

    finding_id: int


@dataclass(frozen=True, slots=True)
class FindingEnded:
    """Its source has taken it back, or a person has closed it."""

    finding_id: int
