"""Prices as they are stored and given: `[{"cluster": "", "gpu_model": "H100", "per_hour": "2.49"}]`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from gpu_health.statistics.cases import Price

MOST = 200
MOST_PER_HOUR = Decimal(100_000)
LONGEST = 100


class BadPrices(ValueError):
    """A price that cannot be meant; the text says which."""


def prices_of(given: object) -> tuple[Price, ...]:
    """Raises BadPrices."""
    if not isinstance(given, list) or len(given) > MOST:
        raise BadPrices(f"Give a list of prices, {MOST} at most.")
    found = tuple(_price_of(one) for one in given)
    named = Counter((one.cluster, one.gpu_model.casefold()) for one in found)
    for one in found:
        if named[one.cluster, one.gpu_model.casefold()] > 1:
            raise BadPrices(f"There are two prices of {words_of(one)}: keep one.")
    return found


def documents_of(prices: Sequence[Price]) -> list[dict[str, str]]:
    return [
        {
            "cluster": one.cluster,
            "gpu_model": one.gpu_model,
            "per_hour": format(one.per_hour.normalize(), "f"),
        }
        for one in prices
    ]


def words_of(price: Price) -> str:
    return f"{price.gpu_model or 'every GPU model'} in {price.cluster or 'every cluster'}"


def _price_of(given: Any) -> Price:
    if not isinstance(given, Mapping) or not set(given) <= {"cluster", "gpu_model", "per_hour"}:
        raise BadPrices("A price has per_hour and, where it is not of all, cluster and gpu_model.")
    cluster, model = (given.get(name, "") for name in ("cluster", "gpu_model"))
    if not all(isinstance(one, str) and len(one) <= LONGEST for one in (cluster, model)):
        raise BadPrices(f"Cluster and gpu_model are names of at most {LONGEST} characters.")
    told = given.get("per_hour")
    try:
        if isinstance(told, bool | None):
            raise InvalidOperation
        per_hour = Decimal(str(told).strip())
        if not per_hour.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise BadPrices(f"{told!r} is no price: give a number such as 2.49.") from None
    exponent = per_hour.as_tuple().exponent
    if not 0 <= per_hour <= MOST_PER_HOUR or (isinstance(exponent, int) and exponent < -6):
        raise BadPrices(f"A price is from 0 to {MOST_PER_HOUR:,}, with six decimals at most; not {told}.")
    return Price(per_hour, cluster.strip(), " ".join(model.split()))
