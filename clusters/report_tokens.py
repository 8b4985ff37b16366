"""The token with which the workers of a deployment report, where no agent of their machine does it."""

import logging
from collections.abc import Mapping
from typing import Any

from clusters.backends.kinds import abilities_of
from clusters.models import Deployment
from common.sealed import CannotUnseal, unseal

logger = logging.getLogger(__name__)
REPORT_TOKEN_PURPOSE = "report-token"  # noqa: S105 - what it is for


def reports_by_token(kind: str, settings: Mapping[str, Any]) -> bool:
    """Whether workers of such a cluster report with tokens of their deployments. `settings`: of the row."""
    return abilities_of(kind).reports_by_token and workers_report(kind, settings)


def workers_report(kind: str, settings: Mapping[str, Any]) -> bool:
    """Whether anything is to be heard of workers of such a cluster, beyond what the cluster says of them."""
    has_address = bool(settings.get("report_url") or settings.get("store_url"))
    return has_address or not abilities_of(kind).reports_by_token


def report_token_of(row: Deployment) -> str:
    """Return its token; empty: it has none, or it cannot be read, and what the cluster has of it stays."""
    if not row.sealed_report_token:
        return ""
    try:
        return unseal(row.sealed_report_token, purpose=REPORT_TOKEN_PURPOSE)
    except CannotUnseal as error:
        logger.warning("The token with which %s reports: %s", row.name, error)
        return ""


def has_relay(kind: str, settings: Mapping[str, Any]) -> bool:
    """Whether the workers of such a cluster report to a relay in it."""
    return reports_by_token(kind, settings) and bool(settings.get("relay_image"))
