from django.utils.translation import gettext_noop

from benchmarks.validity.rule import ValidityRule

RULE = ValidityRule(
    name="client",
    words=gettext_noop("The load generator used %(value)s of its core, limit %(limit)s."),
    limit=0.8,
    value=lambda summary, _: summary.client_cpu,
)
"""Share of a core: above, it reads answers later than they come."""
