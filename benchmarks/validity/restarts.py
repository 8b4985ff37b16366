from django.utils.translation import gettext_noop

from benchmarks.validity.rule import ValidityRule

RULE = ValidityRule(
    name="restarts",
    words=gettext_noop("The server was restarted during the window (%(value)s times)."),
    limit=0,
    value=lambda summary, _: summary.restarts,
)
