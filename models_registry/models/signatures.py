from typing import ClassVar

from django.db import models
from django.db.models import Q

from models_registry.states import SignatureOrigin
from trust.models import TrustedKey
from trust.states import SignatureVerdict


class VersionSignature(models.Model):
    """A signature over a version's files, and what came of verifying it when it was last looked at."""

    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")
    origin = models.CharField(max_length=10, choices=SignatureOrigin.choices, editable=False)
    bundle = models.TextField(blank=True, editable=False)
    """The text of a `model.sig`; empty where it is missing or too large."""
    fingerprint = models.CharField(max_length=64, blank=True, editable=False)
    verdict = models.CharField(max_length=10, choices=SignatureVerdict.choices, editable=False)
    reason = models.TextField(blank=True, editable=False)
    key = models.ForeignKey(TrustedKey, null=True, on_delete=models.PROTECT, related_name="+")
    """That which has made it, where that is proven."""
    verified_at = models.DateTimeField(editable=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["version", "origin"], name="version_signature_once"),
            models.CheckConstraint(
                condition=Q(verdict=SignatureVerdict.VALID, key__isnull=False)
                | (~Q(verdict=SignatureVerdict.VALID) & Q(key=None)),
                name="version_signature_by_a_key",
            ),
        ]

    def __str__(self) -> str:
        return f"signature of {self.version} by {self.origin}"
