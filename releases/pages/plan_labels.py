"""What the plan editor calls the fields of a plan; a field without an entry is called by its key."""

from django.utils.translation import gettext_noop as _

LABELS = {
    "role": _("Role"),
    "separate_requester": _("Disallow self-approval"),
    "timeout_s": _("Timeout (s)"),
    "on_timeout": _("On timeout"),
    "keep_judging": _("Keep judging"),
    "when": _("When"),
    "replicas": _("Replicas"),
    "share_percent": _("Share (%)"),
    "ready_within_s": _("Ready within (s)"),
    "seconds": _("Seconds"),
    "roll_back_above_ratio": _("Roll back above ratio"),
    "roll_back_min_percent": _("Roll back min (%)"),
    "promote_below_ratio": _("Promote below ratio"),
    "promote_below_percent": _("Promote below (%)"),
    "at_most_s": _("At most (s)"),
    "on_insufficient": _("If inconclusive"),
    "slow_above_ms": _("Slow above (ms)"),
    "false_roll_back_percent": _("False rollback (%)"),
    "false_promote_percent": _("False promotion (%)"),
    "requests_per_session": _("Requests per session"),
    "min_requests": _("Min requests"),
    "abort_above_percent": _("Abort above (%)"),
    "abort_min_requests": _("Abort min requests"),
    "requests": _("Requests"),
    "max_latency_ms": _("Max latency (ms)"),
    "percent": _("Percent"),
}

CHOICES = {
    "ask": _("require approval"),
    "wait": _("keep waiting"),
    "promote": _("continue"),
    "roll_back": _("roll back"),
    "reject": _("reject"),
    "always": _("always"),
    "unless_certified": _("unless passed"),
    "approver": _("approver"),
    "admin": _("admin"),
}
"""What the values of a choice are called."""
HELP = {
    "on_insufficient": _("What happens without enough evidence by then."),
    "on_timeout": _("What happens when nobody has decided by then."),
    "when": _("Whether it is skipped when the candidate has passed the analysis."),
}
"""Instead of what the schema says of them, which names the values as the document does."""

STEP_HELP = {
    "scan": _("Refuse a version whose files are not what they claim to be, or may run code."),
    "deploy": _("Start the candidate's workers, or change how many there are, and wait until all are ready."),
    "smoke_test": _("Send real requests straight to the candidate; one failed request fails the release."),
    "weight": _("Give the candidate this percentage of the service's requests, and see that it gets them."),
    "hold": _("Wait. While the candidate has traffic it is judged, and rolled back as soon as that is due."),
    "judge": _("Continue as soon as the analysis passes."),
    "approval": _("Wait for approval."),
    "promote": _("Make the candidate stable: all requests to it, then stop the old workers."),
}
