from django.utils.translation import gettext_noop

from benchmarks.validity.rule import ValidityRule

RULE = ValidityRule(
    name="lateness",
    words=gettext_noop("Requests were sent late: p99 %(value)s ms after their time, limit %(limit)s ms."),
    limit=10,
    relative=("ttft_p50", 0.05),
    value=lambda summary, _: summary.lateness_p99_ms,
)
"""Milliseconds, or 5 % of the median TTFT: above, the figures are those of the client."""
