from typing import ClassVar

from django.db import models

# Static by the kind of machine. GPU feature discovery's own count follows what is there.
LABELS = ("slipway.io/gpu-count", "karpenter.k8s.aws/instance-gpu-count")


class GpuCount(models.Model):
    """The number of GPUs that a machine shows, and the number it must have."""

    node = models.OneToOneField("clusters.Node", on_delete=models.CASCADE, related_name="+")
    present = models.JSONField(default=dict)
    """By source (`cluster`, `agent`): as it counts now."""
    most = models.JSONField(default=dict)
    """By source: the most that it has ever counted."""
    fixed = models.PositiveSmallIntegerField(null=True)
    """A person's word; None: labels and the most that was counted say it."""
    fixed_by = models.CharField(max_length=200, blank=True)
    fixed_reason = models.TextField(blank=True)
    fixed_at = models.DateTimeField(null=True)
    short_since = models.DateTimeField(null=True)
    """Since when a source counts fewer than expected; None: none does."""
    is_reported = models.BooleanField(default=False)
    """A reading says that GPUs are missing."""

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"GPUs of {self.node_id}"

    @property
    def label(self) -> str:
        """The one of the machine that says how many it has; blank: none does."""
        labels = self.node.labels
        return next((name for name in LABELS if str(labels.get(name, "")).isdecimal()), "")

    @property
    def expected(self) -> int:
        """0: it never had any."""
        return max((self.expected_by(source) for source in self.most), default=self._told or 0)

    @property
    def missing(self) -> tuple[int, int] | None:
        """Present and expected, of the source that lacks the most; None: no GPU is missing."""
        counts = [(count, self.expected_by(source)) for source, count in self.present.items()]
        return max(
            (pair for pair in counts if pair[0] < pair[1]), key=lambda pair: pair[1] - pair[0], default=None
        )

    def expected_by(self, source: str) -> int:
        """A source that sees only some of the GPUs is held against itself."""
        return int(self.most.get(source, 0)) if self._told is None else self._told

    @property
    def _told(self) -> int | None:
        """The number given for all sources alike: by a person, else by a label."""
        if self.fixed is not None:
            return self.fixed
        return int(self.node.labels[self.label]) if self.label else None
