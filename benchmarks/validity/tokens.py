from django.utils.translation import gettext_noop

from benchmarks.validity.rule import ValidityRule

RULE = ValidityRule(
    name="tokens",
    words=gettext_noop("The server did not count the tokens of %(value)s of the answers, limit %(limit)s."),
    limit=0.02,
    value=lambda summary, _: summary.uncounted,
    is_measuring=False,
)
"""Share: TPOT is by the server's own count, never by a tokenizer that may be another one."""
