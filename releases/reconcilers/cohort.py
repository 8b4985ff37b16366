"""A cohort's requests: no sample that could be judged, but watched for as long as the release goes on."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from gateway.traffic import TargetCounts
from releases.messages import MessageTemplate, ReleaseMessage, number
from releases.models import Release
from releases.plans.step import CohortTerms
from releases.selectors.plans import plan_of

ENOUGH_FOR_A_SHARE = 100
"""Requests of all clients."""

ERRORS = MessageTemplate(
    "cohort.errors",
    _("The candidate answered %(errors)s of %(requests)s requests of the cohort with an error."),
    errors=str,
    requests=str,
)
TOO_MANY = MessageTemplate(
    "cohort.too_many",
    _("The cohort has %(percent)s %% of the requests, more than %(most)s %%."),
    percent=number,
    most=number,
)


def cohort_of(release: Release) -> CohortTerms | None:
    """Return the cohort that the plan has named by the step at which the release is."""
    steps = plan_of(release).steps[: release.step_index + 1]
    return next((terms for step in reversed(steps) if (terms := step.cohort_terms) is not None), None)


def seen_of_cohort(
    release: Release, counts: Mapping[str, TargetCounts], before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the cohort has asked since its first look, which is `before`; a reset begins anew."""
    candidate, stable = (
        counts.get(name) for name in (release.candidate_deployment, release.stable_deployment)
    )
    if candidate is None or stable is None:
        return dict(before)
    epochs = [candidate.epoch, stable.epoch]
    now = [
        candidate.forced_requests,
        candidate.forced_errors,
        candidate.requests + stable.requests + candidate.forced_requests + stable.forced_requests,
    ]
    start = before.get("start")
    if start is None or before["epochs"] != epochs:
        return {"epochs": epochs, "start": now, "requests": 0, "errors": 0, "all": 0}
    requests, errors, everything = (late - early for late, early in zip(now, start, strict=True))
    return {"epochs": epochs, "start": start, "requests": requests, "errors": errors, "all": everything}


def cohort_fault(release: Release, seen: Mapping[str, Any]) -> ReleaseMessage:
    """Why the release cannot go on for the cohort's sake; empty: it can."""
    terms = cohort_of(release)
    requests, errors, everything = (seen.get(key, 0) for key in ("requests", "errors", "all"))
    if terms is None or not requests:
        return ReleaseMessage()
    rules = plan_of(release).judge
    if requests >= rules.abort_min_requests and 100 * errors > rules.abort_above_percent * requests:
        return ERRORS(errors=errors, requests=requests)
    share = 100 * requests / everything
    if everything >= ENOUGH_FOR_A_SHARE and share > terms.most_percent:
        return TOO_MANY(percent=round(share, 1), most=terms.most_percent)
    return ReleaseMessage()
