"""Which credential a CI system's token fits. Why none does is for the audit record, so in plain English."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from identity import assertions
from identity.errors import BadAssertion
from identity.federation import TokenRequirements, mismatch
from identity.models import FederatedCredential


def accepted(assertion: str, account: str) -> tuple[FederatedCredential, Mapping[str, Any]]:
    """The credential, and the claims that are verified. `account`: empty where the caller names none.

    Raises BadAssertion, ProviderUnavailable.
    """
    issuer = assertions.issuer_of(assertion)
    if issuer.rstrip("/") not in settings.SLIPWAY_CI_ISSUERS:
        raise BadAssertion(f"Its issuer {issuer[:200]!r} is not in SLIPWAY_CI_ISSUERS.")
    issuer = issuer.rstrip("/")
    claims = assertions.verified(assertion, server_url=issuer)
    rows = FederatedCredential.objects.filter(issuer=issuer, account__is_active=True)
    rows = rows.filter(account__username__iexact=account) if account else rows
    fitting, why = [], []
    for one in rows.select_related("account").order_by("pk"):
        fault = mismatch(TokenRequirements(one.audience, one.subject, one.claims), claims)
        fitting += [] if fault else [one]
        why += [f"{one.account}/{one.name}: {fault}"] if fault else []
    subject = str(claims.get("sub", ""))[:200]
    if not fitting:
        known = "; ".join(why[:3]) or "there is no credential for its issuer"
        raise BadAssertion(f"No credential fits {subject!r}: {known}.")
    if len({one.account_id for one in fitting}) > 1:
        raise BadAssertion(f"{subject!r} fits credentials of several accounts, and the caller named none.")
    if fitting[0].is_single_use:
        assertions.use_once(claims)
    return fitting[0], claims
