from django.db import models

from common import clock


class Authored(models.Model):
    """A row that somebody has begun; the author's name outlives the account."""

    author = models.ForeignKey(
        "accounts.User", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    author_name = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        abstract = True
