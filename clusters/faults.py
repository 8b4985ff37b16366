"""Machines that an app above holds for faulty, asked for with the machines themselves."""

from collections.abc import Callable

from django.db.models import BooleanField, Exists, ExpressionWrapper, Q, Value

FaultCheck = Callable[[], Exists]
"""Condition on rows of `Node`, whose `pk` it refers to as `OuterRef`."""

_checks: list[FaultCheck] = []


def register_fault_check(check: FaultCheck) -> None:
    """Registering twice changes nothing."""
    if check not in _checks:
        _checks.append(check)


def is_faulty() -> "ExpressionWrapper[Q] | Value":
    if not _checks:
        return Value(False)
    found = Q()
    for check in _checks:
        found |= Q(check())
    return ExpressionWrapper(found, output_field=BooleanField())
