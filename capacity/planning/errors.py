"""What a planner refuses."""


class PlanningError(ValueError):
    """An input that no plan can be made of; field: its name."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
