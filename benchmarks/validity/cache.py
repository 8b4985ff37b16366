from django.utils.translation import gettext_noop

from benchmarks.validity.rule import ValidityRule

RULE = ValidityRule(
    name="cache",
    words=gettext_noop("The server's prefix cache served %(value)s of the prompt tokens, limit %(limit)s."),
    limit=0.01,
    value=lambda summary, scenario: (
        None if scenario.wants_cache_hits or scenario.shared_prefix else summary.prefix_hits
    ),
)
"""Share, by the server's counters before and after the window."""
