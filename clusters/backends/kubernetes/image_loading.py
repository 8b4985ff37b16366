"""Ways in which machines get images: whole, lazily, from each other, or with their own disk.

The API says nothing of snapshotters and mirrors. A machine's label does, put there by whoever set them up,
or by GKE; for machines without a label the cluster's setting counts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from images.states import Acceleration

LABEL = "slipway.io/image-loading"
_OF_OTHERS = {("cloud.google.com/gke-image-streaming", "true"): Acceleration.LAZY_GKE}
ANY_IMAGE = (Acceleration.LAZY_GKE, Acceleration.NODE_IMAGE)
"""These need no image that was made for them."""


def loading_of(labels: Mapping[str, str], setting: str = "") -> Acceleration:
    """Return the way of one machine. A label that is no way counts as none."""
    if (said := labels.get(LABEL)) in Acceleration.values:
        return Acceleration(said)
    found = (way for (label, value), way in _OF_OTHERS.items() if labels.get(label) == value)
    return next(found, Acceleration(setting))


def needs_pull(way: Acceleration, image_acceleration: str) -> bool:
    """Whether a worker would wait for the whole image: a lazy way loads only images that were made for it."""
    if way in ANY_IMAGE:
        return False
    return not (way.startswith("lazy-") and way == image_acceleration)


def loading_words(machines: Iterable[Mapping[str, str]], setting: str) -> str:
    """Describe the ways of machines by their labels: `lazy-soci on 3 machines, p2p-spegel on 1 machine`."""
    counts = Counter(loading_of(labels, setting) for labels in machines)
    if not counts:
        return "No machine was seen."
    told = (
        f"{way or 'pulled as a whole'} on {count} machine{'' if count == 1 else 's'}"
        for way, count in counts.most_common()
    )
    return f"{', '.join(told)}."
