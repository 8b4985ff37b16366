"""MIG layouts: which instances of a card serve given needs, and where on the card they may stand.

The geometry is that of NVIDIA's MIG user guide (r580).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from capacity.planning.errors import PlanningError

Profile = tuple[str, int, int, int, tuple[int, ...]]
"""Name, compute slices of 7, memory in MiB, memory slices of 8, where it may begin."""

_SEVEN = (0, 1, 2, 3, 4, 5, 6)


def _hopper_like(
    one: str, double: str, two: str, three: str, four: str, seven: str, slice_mib: int
) -> tuple[Profile, ...]:
    return (
        (one, 1, slice_mib, 1, _SEVEN),
        (double, 1, 2 * slice_mib, 2, (0, 2, 4, 6)),
        (two, 2, 2 * slice_mib, 2, (0, 2, 4)),
        (three, 3, 4 * slice_mib, 4, (0, 4)),
        (four, 4, 4 * slice_mib, 4, (0,)),
        (seven, 7, 8 * slice_mib, 8, (0,)),
    )


GEOMETRY: dict[str, tuple[Profile, ...]] = {
    "A100-40GB": _hopper_like("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb", 4_864),
    "A100-80GB": _hopper_like("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", 9_728),
    "H100-80GB": _hopper_like("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", 9_856),
    "H200-141GB": _hopper_like("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb", 16_384),
}


@dataclass(frozen=True)
class SliceNeed:
    """Need of one model on a card: memory in MiB at its peak, and its share of the card's time, 0 to 1."""

    name: str
    memory_mib: int
    share: float


@dataclass(frozen=True)
class MigPlacement:
    """An instance on a card: profile, first memory slice, and for whom."""

    profile: str
    begin: int
    name: str


def geometry_of(product: str) -> str:
    """Return the name in `GEOMETRY` of a product such as `NVIDIA H100 80GB HBM3`."""
    words = product.upper().replace("-", " ").split()
    for name in GEOMETRY:
        family, memory = name.split("-")
        if family in words and (memory in words or family == "H200"):
            return name
    known = ", ".join(sorted(GEOMETRY))
    raise PlanningError(
        "machine", f"The MIG geometry of {product or 'this GPU'} is not known; known: {known}."
    )


def fill(model: str, needs: Iterable[SliceNeed]) -> tuple[str, list[dict[str, str | int]]]:
    """Return the smallest profile that holds each of the needs, and a card full of it.

    All cards of a machine are divided alike, so that each need has its place on any of them.
    """
    wanted = list(needs)
    profiles = [profile_for(model, need) for need in wanted]
    profile = max(profiles, key=lambda one: (one[3], one[1]))
    one = SliceNeed(profile[0], profile[2], profile[1] / 7)
    full: tuple[MigPlacement, ...] = ()
    for count in range(1, 8):
        try:
            full = layout(model, [one] * count)
        except PlanningError:
            break
    return profile[0], [{"profile": each.profile, "begin": each.begin, "name": ""} for each in full]


def profile_for(model: str, need: SliceNeed) -> Profile:
    """The smallest profile of this GPU that holds the need."""
    if model not in GEOMETRY:
        raise PlanningError(
            "model", f"The MIG geometry of {model} is not known; known: {', '.join(sorted(GEOMETRY))}."
        )
    fits = [p for p in GEOMETRY[model] if p[2] >= need.memory_mib and p[1] / 7 >= need.share]
    if not fits:
        raise PlanningError(
            "memory_mib",
            f"No slice of {model} has the {need.memory_mib} MiB and {need.share:.0%} that {need.name} needs.",
        )
    return min(fits, key=lambda p: (p[3], p[1]))


def layout(
    model: str, needs: Iterable[SliceNeed], kept: Iterable[MigPlacement] = ()
) -> tuple[MigPlacement, ...]:
    """Instances for all needs on one card beside those that stay; refuses what has no place."""
    wanted = sorted(
        ((profile_for(model, need), need.name) for need in needs), key=lambda w: (-w[0][3], -w[0][1], w[1])
    )
    profiles = {profile[0]: profile for profile in GEOMETRY[model]} if model in GEOMETRY else {}
    standing = tuple(kept)
    taken: set[int] = set()
    compute = 0
    for instance in standing:
        if instance.profile not in profiles:
            raise PlanningError("kept", f"{model} has no profile {instance.profile}.")
        _, slices, _, size, begins = profiles[instance.profile]
        span = set(range(instance.begin, instance.begin + size))
        if instance.begin not in begins or span & taken:
            raise PlanningError(
                "kept", f"{instance.profile} cannot stand at slice {instance.begin} of {model}."
            )
        taken |= span
        compute += slices
    placed = _placed(wanted, taken, compute)
    if placed is None:
        names = ", ".join(f"{name} ({profile[0]})" for profile, name in wanted)
        raise PlanningError("needs", f"One {model} has no place for {names} beside what stands there.")
    return (*standing, *placed)


def _placed(
    wanted: list[tuple[Profile, str]], taken: set[int], compute: int
) -> tuple[MigPlacement, ...] | None:
    if not wanted:
        return ()
    (profile, slices, _, size, begins), name = wanted[0]
    if compute + slices > 7:
        return None
    # From the end: the first slices are the only ones where large profiles may begin.
    for begin in reversed(begins):
        span = set(range(begin, begin + size))
        if not span & taken and max(span) < 8:
            rest = _placed(wanted[1:], taken | span, compute + slices)
            if rest is not None:
                return (MigPlacement(profile, begin, name), *rest)
    return None
