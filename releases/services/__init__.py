"""Every write of releases: services, plans, and the wishes people have about a release.

A wish is a column on the release row; `releases.reconcilers` moves the state.
"""

from releases.services.approval import approve, reject
from releases.services.plan import delete_plan, save_plan
from releases.services.policy import set_team_policy
from releases.services.release import abort, end_bake, pause, resume, rollback, start_release
from releases.services.release_header import set_release_header
from releases.services.service import change_service, create_service
from releases.services.threshold import accept_threshold, set_slow_threshold

__all__ = [
    "abort",
    "accept_threshold",
    "approve",
    "change_service",
    "create_service",
    "delete_plan",
    "end_bake",
    "pause",
    "reject",
    "resume",
    "rollback",
    "save_plan",
    "set_release_header",
    "set_slow_threshold",
    "set_team_policy",
    "start_release",
]
