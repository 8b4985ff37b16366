"""Narrowing the audit record: the same over REST and on the page."""

from typing import Any

import django_filters
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from common.models import AuditRecord
from common.pages.forms import MomentInput, SearchInput
from common.words import mentioning


class AuditFilter(django_filters.FilterSet):  # type: ignore[misc]
    q = django_filters.CharFilter(
        method="mentioning",
        label=_("Words that must occur in actor, action, resource, reason or address."),
        widget=SearchInput(_("Any word")),
    )
    actor = django_filters.CharFilter("actor", "iexact", label=_("Actor"))
    action = django_filters.CharFilter(
        "action", "istartswith", label=_("Action"), help_text=_("Such as release.approve, or release.")
    )
    subject = django_filters.CharFilter("subject_label", "icontains", label=_("Resource"))
    since = django_filters.IsoDateTimeFilter("at", "gte", label=_("Since"), widget=MomentInput)
    until = django_filters.IsoDateTimeFilter("at", "lt", label=_("Until"), widget=MomentInput)

    class Meta:
        model = AuditRecord
        fields: tuple[str, ...] = ()

    def mentioning(self, rows: QuerySet[AuditRecord], _name: str, words: str) -> QuerySet[AuditRecord]:
        return mentioning(rows, words, ("actor", "action", "subject_label", "reason", "address"))


def shown_columns(row: AuditRecord) -> dict[str, Any]:
    """Everything of a row, for exports; `at` in UTC."""
    names = (
        "seq", "at", "actor", "via", "address", "action", "subject_kind", "subject_id", "subject_label",
        "team_id", "reason", "detail", "token_id", "previous_hash", "hash", "key_id", "signature",
    )  # fmt: skip
    return {name: getattr(row, name) for name in names}
