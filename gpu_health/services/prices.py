"""What an hour of a GPU costs."""

from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require_everywhere
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.errors import Stale
from gpu_health.errors import InvalidPrices
from gpu_health.models import GpuPrices
from gpu_health.statistics.prices import BadPrices, documents_of, prices_of


def set_prices(
    *,
    actor: Actor,
    currency: str,
    prices: Sequence[Any],
    reason: str,
    expected: int | None = None,
) -> GpuPrices:
    """All of them, in the place of those before. `expected`: the revision that was read; 0: none was stored.

    Raises NotAllowed, InvalidPrices, Stale.
    """
    require_everywhere(actor, Right.FLEET_OPERATE)
    if not (len(currency) == 3 and currency.isascii() and currency.isalpha() and currency.isupper()):
        raise InvalidPrices(fields={"currency": [_("Give the three letters of a currency, such as USD.")]})
    try:
        documents = documents_of(prices_of(list(prices)))
    except BadPrices as error:
        raise InvalidPrices(fields={"prices": [str(error)]}) from None
    values = {"currency": currency, "prices": documents}
    with transaction.atomic():
        row = GpuPrices.objects.filter(pk=GpuPrices.ONLY).first()
        if row is not None:
            row.change(expected=expected, **values)
        else:
            try:
                with transaction.atomic():
                    row = GpuPrices.objects.create(pk=GpuPrices.ONLY, **values)
            except IntegrityError:
                raise Stale(_("Someone else set prices at the same time. Read them again.")) from None
        audit.record(actor, "gpu_prices.set", subject=row, reason=reason, detail=values)
    return row
