from django.utils.translation import gettext_noop

from benchmarks.validity.rule import ValidityRule

RULE = ValidityRule(
    name="offered",
    words=gettext_noop("The load generator fell short of the rate by %(value)s, limit %(limit)s."),
    limit=0.02,
    value=lambda summary, _: 1 - summary.send_share,
)
"""Share: a cap on requests in flight turns an open loop into a closed one, which hides the wait."""
