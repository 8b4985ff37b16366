"""Patterns over the names of groups and the subjects of tokens: `*` stands for any characters, nothing else
has a meaning. Judged in linear time: whoever names a group must not be able to stop a sign-in."""

MAX_PATTERN = 255


def matches(pattern: str, name: str) -> bool:
    """Whether the whole name fits, letter by letter, upper and lower case apart."""
    head, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, tail = rest
    if not name.startswith(head) or len(name) < len(head) + len(tail) or not name.endswith(tail):
        return False
    place, end = len(head), len(name) - len(tail)
    for part in middle:
        found = name.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


def fixed_part(pattern: str) -> str:
    """Return the part of a pattern before its first `*`."""
    return pattern.partition("*")[0]
