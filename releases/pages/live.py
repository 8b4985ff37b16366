"""The versions that answered a service's requests at a time in the past, and who brought them there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import unescape
from typing import Any

from django.utils.html import conditional_escape, escape, strip_tags
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from common import clock
from common.errors import Invalid
from common.pages.formats import absolute
from common.sentences import listed
from gateway.split_history import split_at
from releases.models import Approval, Release, Service
from releases.states import ApprovalDecision
from releases.steps.cohort import CohortStep


@dataclass(frozen=True, slots=True)
class LiveVersion:
    version: str
    percent: int
    since: datetime
    """Since when it was stable, or had this share."""
    release: Release | None
    approvals: Sequence[Approval]
    """Those given by then."""
    entry: int
    """Number of the entry of the audit record that says so."""


@dataclass(frozen=True, slots=True)
class Live:
    service: str
    at: datetime
    stable: LiveVersion | None
    candidate: LiveVersion | None
    since: datetime | None
    """Since when the split was this one; None: no version was live."""
    cohort: str
    """Requests that went to the candidate whatever its share, in words; empty: none did."""
    withheld_since: datetime | None
    """Since when stable got the candidate's requests too, as no worker of the candidate was ready."""

    @property
    def versions(self) -> list[LiveVersion]:
        return [one for one in (self.stable, self.candidate) if one is not None]

    @property
    def summary(self) -> str:
        return unescape(strip_tags(in_words(self, absolute)))


def live_at(service: Service, at: datetime) -> Live:
    """Raises Invalid for a time that has not come yet."""
    if at > clock.now():
        raise Invalid(fields={"at": [_("Give a time in the past.")]})
    split = split_at(service.name, at)
    if split is None:
        return Live(service.name, at, None, None, None, "", None)
    is_split = bool(split.candidate) and (split.candidate_percent > 0 or split.cohort is not None)
    percent = split.candidate_percent if is_split else 0
    return Live(
        service=service.name,
        at=at,
        stable=_version(
            split.stable, 100 - percent, split.stable_since, split.stable_writer, at, entry=split.entries[1]
        ),
        candidate=_version(split.candidate, percent, split.since, split.writer, at, entry=split.entries[0])
        if is_split
        else None,
        since=split.since if is_split else split.stable_since,
        cohort=CohortStep(**split.cohort).summary() if is_split and split.cohort else "",
        withheld_since=split.withheld_since if is_split else None,
    )


def _version(
    version: str, percent: int, since: datetime, writer: int, at: datetime, *, entry: int
) -> LiveVersion:
    release = Release.objects.filter(pk=writer).first()
    approvals = Approval.objects.filter(release=release, decision=ApprovalDecision.APPROVE, at__lte=at)
    given = list(approvals.select_related("by").order_by("pk")) if release else []
    return LiveVersion(version, percent, since, release, given, entry)


def in_words(live: Live, moment: Callable[[datetime], str]) -> SafeString:
    """Sentences for a page; `moment` writes a time."""
    if live.stable is None:
        words = _("At %(at)s no version was live: %(service)s had no route.")
        return _filled(words, at=moment(live.at), service=live.service)
    names: dict[str, Any] = {
        "at": moment(live.at),
        "service": live.service,
        "stable": live.stable.version,
        "since": moment(live.since or live.at),
        "rest": live.stable.percent,
    }
    if live.candidate is None:
        sentences = [
            _filled(_("At %(at)s %(stable)s got all requests of %(service)s, since %(since)s."), **names)
        ]
    else:
        names |= {"candidate": live.candidate.version, "percent": live.candidate.percent}
        words = _(
            "At %(at)s %(stable)s got %(rest)s %% and %(candidate)s %(percent)s %% of the requests of "
            "%(service)s, since %(since)s."
        )
        sentences = [_filled(words, **names)]
        if live.cohort:
            words = _("Requests with %(cohort)s went to %(candidate)s.")
            sentences.append(_filled(words, cohort=live.cohort, **names))
        if live.withheld_since:
            words = _(
                "From %(withheld)s on %(stable)s got them all, because no worker of %(candidate)s was ready."
            )
            sentences.append(_filled(words, withheld=moment(live.withheld_since), **names))
    sentences += [_brought(one.version, one.release, one.approvals) for one in live.versions if one.release]
    return mark_safe(" ".join(sentences))  # noqa: S308 - each was escaped


def _brought(version: str, release: Release, approvals: Sequence[Approval]) -> SafeString:
    approvers = listed(dict.fromkeys(str(approval.by) for approval in approvals))
    words = (
        _(
            "%(version)s came with release #%(release)s, requested by %(requester)s and approved by "
            "%(approvers)s."
        )
        if approvers
        else _(
            "%(version)s came with release #%(release)s, requested by %(requester)s; nobody had approved it "
            "by then."
        )
    )
    return _filled(
        words,
        version=version,
        release=release.pk,
        requester=release.requester,
        approvers=approvers,
    )


def _filled(words: str, **values: Any) -> SafeString:
    given = {name: conditional_escape(value) for name, value in values.items()}
    return mark_safe(escape(words) % given)  # noqa: S308
