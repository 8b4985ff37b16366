"""Numbers and times as people read them: three significant digits, units always.

`static/js/format.js` says the same in the browser for values that change while a page is open; one table of
cases in the tests holds both to it. A value that is not known is an en dash, never a zero. All languages of
the console write digits alike; words and units are the catalogue's.
"""

import json
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from django.utils import timezone
from django.utils.dateformat import format as date_format
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

NO_VALUE = "–"
SPACE = "\u00a0"
"""Keeps a number and its unit on one line."""

DECIMAL_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

Number = int | float


def fixed(value: Number, digits: int) -> str:
    """`value` with exactly `digits` decimals, halves away from zero as browsers round them."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def three_digits(value: Number) -> str:
    """1.24, 12.4, 124; never an exponent."""
    for digits, limit in ((2, 9.995), (1, 99.95)):
        if abs(value) < limit:
            return fixed(value, digits)
    return grouped(value)


def grouped(value: Number) -> str:
    """12,345: whole, with thousands separated."""
    return f"{int(Decimal(value).quantize(Decimal(1), ROUND_HALF_UP)):,}"


def _scaled(value: Number, base: int, units: tuple[str, ...]) -> str:
    amount = float(value)
    index = 0
    while abs(amount) >= base - 0.5 and index < len(units) - 1:
        amount /= base
        index += 1
    return f"{grouped(amount) if index == 0 else three_digits(amount)}{SPACE}{units[index]}"


def byte_size(count: Number | None) -> str:
    """Files and transfers, in powers of 1000 as hubs and disks state them: `1.24 GB`."""
    return NO_VALUE if count is None else _scaled(count, 1000, DECIMAL_UNITS)


def memory_size(count: Number | None) -> str:
    """Memory, in powers of 1024 as GPU vendors state it: `79.6 GiB`."""
    return NO_VALUE if count is None else _scaled(count, 1024, BINARY_UNITS)


def byte_rate(per_second: Number | None) -> str:
    """`118 MB/s`"""
    return NO_VALUE if per_second is None else f"{byte_size(per_second)}/s"


def rate(per_second: Number | None, unit: str = "req") -> str:
    """`12.4 req/s`"""
    if per_second is None:
        return NO_VALUE
    amount = "0" if per_second == 0 else three_digits(per_second)
    return f"{amount}{SPACE}{unit}/s"


def count(value: Number | None) -> str:
    """`12,345`"""
    return NO_VALUE if value is None else grouped(value)


def percent(share: Number | None, digits: int = 0) -> str:
    """A share of 0..1 as `42%`. What is small but not nothing says `<1%`, what is not quite all `>99%`."""
    if share is None:
        return NO_VALUE
    hundredths = Decimal(share) * 100
    text = str(hundredths.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    smallest = Decimal(1).scaleb(-digits)
    if hundredths > 0 and Decimal(text) == 0:
        return f"<{smallest}%"
    if hundredths < 100 and Decimal(text) == 100:
        return f">{100 - smallest}%"
    return f"{text}%"


def way(share: Number | None) -> str:
    """Format a share of the way to a limit, 0..1; below zero, to the limit on the other side: `42%`."""
    return NO_VALUE if share is None else percent(abs(share))


def duration(length: timedelta | Number | None) -> str:
    """Seconds or a timedelta: `850 ms`, `12.3 s`, `4 min 05 s`, `3 h 12 min`, `2 d 4 h`."""
    if length is None:
        return NO_VALUE
    seconds = length.total_seconds() if isinstance(length, timedelta) else float(length)
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds == 0:
        return f"0{SPACE}s"
    if seconds < 0.0005:
        return f"<1{SPACE}ms"
    if seconds < 0.9995:
        return f"{fixed(seconds * 1000, 0)}{SPACE}ms"
    if seconds < 59.95:
        return f"{three_digits(seconds)}{SPACE}s"
    return _whole(int(seconds + 0.5))


def span(length: timedelta | Number | None) -> str:
    """Format a length of time where parts of a second do not matter: `<1 s`, `31 s`."""
    if length is None:
        return NO_VALUE
    seconds = int(length.total_seconds() if isinstance(length, timedelta) else length)
    unit = pgettext("unit", "s")
    if seconds < 1:
        return f"<1{SPACE}{unit}"
    return f"{seconds}{SPACE}{unit}" if seconds < 60 else _whole(seconds)


def _whole(seconds: int) -> str:
    if seconds < 3600:
        return _two(seconds // 60, pgettext("unit", "min"), f"{seconds % 60:02d}", pgettext("unit", "s"))
    minutes = seconds // 60
    if minutes < 24 * 60:
        return _two(minutes // 60, pgettext("unit", "h"), f"{minutes % 60:02d}", pgettext("unit", "min"))
    hours = minutes // 60
    return _two(hours // 24, pgettext("unit", "d"), str(hours % 24), pgettext("unit", "h"))


def _two(amount: int, unit: str, rest: str, smaller_unit: str) -> str:
    return f"{amount}{SPACE}{unit}{SPACE}{rest}{SPACE}{smaller_unit}"


def literal(value: Any) -> str:
    """A value of someone's JSON: text as it is, the rest as JSON writes it (`true`, `null`, `[1, 2]`)."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def relative(moment: datetime, now: datetime) -> str:
    """`just now`, `12 s ago`, `in 4 min`, `3 d ago`; beyond 30 days the date."""
    seconds = (now - moment).total_seconds()
    distance = abs(seconds)
    if distance < 3:
        return _("just now")
    if distance >= 30 * 86400:
        return date_format(timezone.localtime(moment), pgettext("date format", "j M Y"))
    if distance < 60:
        amount = f"{int(distance)}{SPACE}{pgettext('unit', 's')}"
    elif distance < 3600:
        amount = f"{int(distance // 60)}{SPACE}{pgettext('unit', 'min')}"
    elif distance < 86400:
        amount = f"{int(distance // 3600)}{SPACE}{pgettext('unit', 'h')}"
    else:
        amount = f"{int(distance // 86400)}{SPACE}{pgettext('unit', 'd')}"
    told = _("%(amount)s ago") if seconds > 0 else _("in %(amount)s")
    return told % {"amount": amount}


def due(moment: datetime, now: datetime) -> str:
    """When something is done next: `next in 4 min`, `due now`."""
    if (moment - now).total_seconds() < 3:
        return _("due now")
    return _("next %(moment)s") % {"moment": relative(moment, now)}


def absolute(moment: datetime) -> str:
    """`2026-11-21 01:24:05 UTC`, in the reader's time zone `2026-11-21 09:24:05 UTC+8`"""
    local = timezone.localtime(moment)
    minutes = int((local.utcoffset() or timedelta()).total_seconds() // 60)
    hours, rest = divmod(abs(minutes), 60)
    offset = f"{'-' if minutes < 0 else '+'}{hours}{f':{rest:02d}' if rest else ''}" if minutes else ""
    return local.strftime(f"%Y-%m-%d %H:%M:%S UTC{offset}")
