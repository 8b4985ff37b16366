"""Versions as numbers: of engines, of CUDA, of drivers."""

import re

_NUMBERS = re.compile(r"[vV]?(\d{1,9}(?:\.\d{1,9}){0,5})")


def numbers(text: str) -> tuple[int, ...]:
    """`535.104.05` as (535, 104, 5), `v0.10.2rc1+cu128` as (0, 10, 2); empty where it begins with none."""
    found = _NUMBERS.match(text.strip())
    if found is None:
        return ()
    parts = [int(part) for part in found[1].split(".")]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()  # 12.0 is 12.
    return tuple(parts)


def at_least(have: str, least: str) -> bool | None:
    """Whether `have` is `least` or newer; None when one of them is no version."""
    mine, theirs = numbers(have), numbers(least)
    return mine >= theirs if mine and theirs else None


def answers(wish: str, version: str) -> bool:
    """`0.10` asks for any 0.10.x, `>=0.10` for that or newer; an empty wish for any."""
    wish = wish.strip()
    if not wish:
        return True
    if wish.startswith(">="):
        return at_least(version, wish[2:]) is True
    asked, has = wish.lower().lstrip("v"), version.lower().lstrip("v")
    return has == asked or has.startswith((f"{asked}.", f"{asked}-", f"{asked}+"))
