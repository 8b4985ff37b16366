"""A fault of a body, as `Status.details.causes` has it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StatusCause:
    reason: str
    message: str
    field: str

    def as_json(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}
