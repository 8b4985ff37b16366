"""What /metrics says, as a test asks it."""

from django.test import Client
from prometheus_client.parser import text_string_to_metric_families


class Reading:
    def __init__(self, client: Client) -> None:
        response = client.get("/metrics")
        assert response.status_code == 200
        self.samples = [
            sample
            for family in text_string_to_metric_families(response.content.decode())
            for sample in family.samples
        ]

    def __call__(self, name: str, **labels: str) -> float | None:
        """The value of slipway_`name` with these labels; None when there is no such."""
        found = [
            sample.value
            for sample in self.samples
            if sample.name == f"slipway_{name}" and labels.items() <= sample.labels.items()
        ]
        return sum(found) if found else None
