"""When a line of a kernel log was written: what stands before the message, in the forms that tools write.

`dmesg` (seconds since the start, `-T`, `--time-format iso`, `-x`), `/dev/kmsg`, syslog (with and without a
year) and `journalctl` (short, short-iso, short-unix).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from gpu_health.signals.reading import LATEST, ReadingClock

_KMSG = re.compile(rb"\d{1,6},(\d{1,20}),(\d{1,20}),[^;]{0,40};")
_UPTIME = re.compile(rb"(?:<\d{1,3}>)?\[ {0,12}(\d{1,12}\.\d{1,9}) ?\]")
_ISO = re.compile(rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?(?=[\s:\]])")
_CTIME = re.compile(
    rb"\[?(?:[^\s\[\]:,;<]{1,12} )?([^\s\[\]:,;<]{1,16}) {1,2}(\d{1,2}) "
    rb"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?: (\d{4}))?\]?"
)
_UNIX = re.compile(rb"(\d{9,10}\.\d{1,9}) ")
_MONTHS = {
    month: number
    for names in (
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "jan feb mär apr mai jun jul aug sep okt nov dez",
        "janv févr mars avr mai juin juil août sept oct nov déc",
        "ene feb mar abr may jun jul ago sep oct nov dic",
        "gen feb mar apr mag giu lug ago set ott nov dic",
        "jan fev mar abr mai jun jul ago set out nov dez",
        "янв фев мар апр мая июн июл авг сен окт ноя дек",
        "янв фев мар апр май июн июл авг сен окт ноя дек",
        "1月 2月 3月 4月 5月 6月 7月 8月 9月 10月 11月 12月",
        "1월 2월 3월 4월 5월 6월 7월 8월 9월 10월 11월 12월",
    )
    for number, month in enumerate(names.split(), 1)
}
"""In English, German, French, Spanish, Italian, Portuguese, Russian, Chinese (and Japanese), Korean."""
LONGEST = 160
"""Of a prefix, in bytes: host names are long."""


@dataclass(frozen=True, slots=True)
class Stamp:
    at: float
    clock: ReadingClock
    sequence: str = ""
    """Of a message of `/dev/kmsg`."""


UNKNOWN = Stamp(0.0, ReadingClock.NONE)


def stamp_of(prefix: bytes, *, booted_at: float | None = None, year: int | None = None) -> Stamp:
    """Never raises. Times without a zone are UTC.

    `booted_at` (seconds since the epoch) turns times since the start into dates; `year` is that of a syslog
    that names none, without which such a time is not known.
    """
    prefix = prefix[:LONGEST]
    if found := _KMSG.match(prefix):
        return _since_boot(int(found[2]) / 1e6, booted_at, found[1].decode())
    if (found := _ISO.search(prefix)) and (stamp := _iso(found)):
        return stamp
    if (found := _CTIME.search(prefix)) and (stamp := _ctime(found, year)):
        return stamp
    if found := _UNIX.search(prefix):
        return Stamp(float(found[1]), ReadingClock.EPOCH)
    if found := _UPTIME.search(prefix):
        return _since_boot(float(found[1]), booted_at)
    return UNKNOWN


def _since_boot(seconds: float, booted_at: float | None, sequence: str = "") -> Stamp:
    if not 0 <= seconds < LATEST:
        return Stamp(0.0, ReadingClock.NONE, sequence)
    if booted_at is None:
        return Stamp(seconds, ReadingClock.BOOT, sequence)
    return Stamp(booted_at + seconds, ReadingClock.EPOCH, sequence)


def _iso(found: re.Match[bytes]) -> Stamp | None:
    day, clock, fraction, zone = (part.decode() if part else "" for part in found.groups())
    zone = "+00:00" if zone in ("", "Z") else zone
    if ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    return _dated(lambda: datetime.fromisoformat(f"{day}T{clock}.{fraction[:6].ljust(6, '0')}{zone}"))


def _ctime(found: re.Match[bytes], year: int | None) -> Stamp | None:
    month = _MONTHS.get(found[1].decode(errors="replace").lower().rstrip("."))
    named = int(found[7]) if found[7] else year
    if month is None or named is None:
        return None
    day, hour, minute, second = (int(found[group]) for group in range(2, 6))
    micros = int((found[6] or b"")[:6].ljust(6, b"0"))
    return _dated(lambda: datetime(named, month, day, hour, minute, min(second, 59), micros, tzinfo=UTC))


def _dated(make: Callable[[], datetime]) -> Stamp | None:
    try:
        at = make().timestamp()
    except (ValueError, OverflowError):
        return None
    return Stamp(at, ReadingClock.EPOCH) if 0 <= at < LATEST else None
