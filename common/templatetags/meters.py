"""How much of something there is: `{% load meters %}`. Bars, heat maps, lines without axes, progress."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from common.pages import charts, formats, icons

register = template.Library()


def busy_level(share: float | None) -> str:
    """Ten steps of colour, `0`..`10`; empty when nothing is known."""
    return "" if share is None else str(max(0, min(10, round(share * 10))))


@register.simple_tag
def busy(share: float | None, label: str, live: str = "", number: bool = True) -> SafeString:
    """`{% busy gpu.busy label="GPU 0 busy" live="gpu.0.busy" %}`: a bar of 0..1 and its percentage."""
    known = share is not None
    text = formats.percent(share)
    return format_html(
        '<span class="busy" role="meter" aria-label="{}" aria-valuemin="0" aria-valuemax="100" '
        'aria-valuenow="{}" aria-valuetext="{}" data-busy="{}"{}>'
        '<svg class="busy-bar" aria-hidden="true"><rect width="{}%" height="100%"></rect></svg>{}</span>',
        label,
        round((share or 0) * 100),
        text if known else _("not known"),
        busy_level(share),
        format_html(' data-live="{}" data-live-as="busy"', live) if live else "",
        round((share or 0) * 100),
        format_html('<span class="busy-number">{}</span>', text) if number else "",
    )


@register.simple_tag
def heat(
    share: float | None, label: str, url: str = "", live: str = "", mark: str = "", tone: str = ""
) -> SafeString:
    """`{% heat node.busy label=node.name url=node.url live=path %}`: one cell of a heat map.

    `mark` is an icon and `tone` a tone for a machine whose state matters more than how busy it is: lost,
    stuck, quarantined.
    """
    attributes = format_html(
        'class="heat{}" data-busy="{}" data-label="{}" title="{}"{}',
        f" tone-{tone}" if tone else "",
        busy_level(share),
        label,
        f"{label}: {formats.percent(share) if share is not None else _('not known')}",
        format_html(' data-live="{}" data-live-as="heat"', live) if live else "",
    )
    inside = format_html(
        '{}<span class="visually-hidden">{}</span>', icons.icon(mark, size=12) if mark else "", label
    )
    if url:
        return format_html('<a href="{}" {}>{}</a>', url, attributes, inside)
    return format_html("<span {}>{}</span>", attributes, inside)


@register.simple_tag
def gpu_bars(gpus: Sequence[Any]) -> SafeString:
    """`{% gpu_bars machine.gpus %}`: two columns for each GPU, its use and its memory (`index`, `use` and
    `memory`, 0..1 or None); in words as well.
    """
    track: list[str] = []
    use: list[str] = []
    memory: list[str] = []
    for place, gpu in enumerate(gpus):
        for path, left, share in ((use, place * 16, gpu.use), (memory, place * 16 + 6, gpu.memory)):
            track.append(f"M{left} 0h5v20h-5z")
            if share is not None:
                high = round(20 * max(0.0, min(1.0, share)), 1)
                path.append(f"M{left} {20 - high:g}h5v{high:g}h-5z")
    words = "; ".join(
        _("GPU %(index)s: use %(use)s, memory %(memory)s")
        % {"index": gpu.index, "use": formats.percent(gpu.use), "memory": formats.percent(gpu.memory)}
        for gpu in gpus
    )
    return format_html(
        '<svg class="gpu-bars" role="img" aria-label="{}" width="{}" height="20"><title>{}</title>'
        '<path class="gpu-track" d="{}"/><path class="gpu-use" d="{}"/>'
        '<path class="gpu-memory" d="{}"/></svg>',
        words,
        len(gpus) * 16 - 5,
        words,
        "".join(track),
        "".join(use),
        "".join(memory),
    )


@register.simple_tag
def spark(
    values: Sequence[float | None], label: str, width: int = 96, height: int = 24, top: float | None = None
) -> SafeString:
    """`{% spark node.busy_history label="Busy, last 10 minutes" top=1 %}`: a line without axes."""
    line, area = charts.sparkline(values, width=width, height=height, top=top)
    return format_html(
        '<svg class="spark" role="img" aria-label="{}" width="{}" height="{}" viewBox="0 0 {} {}">'
        '<path class="spark-area" d="{}"></path><path class="spark-line" d="{}"></path></svg>',
        label,
        width,
        height,
        width,
        height,
        area,
        line,
    )


@register.inclusion_tag("components/weights.html")
def weights(desired: int, observed: float | None = None, live: str = "") -> dict[str, Any]:
    """`{% weights desired=25 observed=24.6 %}`: percent of traffic that the candidate shall get, and gets."""
    return {"desired": desired, "observed": observed, "stable": 100 - desired, "live": live}


@register.inclusion_tag("components/progress.html")
def progress(
    finished: float,
    total: float | None,
    label: str,
    unit: str = "bytes",
    rate: float | None = None,
    left: timedelta | float | None = None,
) -> dict[str, Any]:
    """`{% progress done total label="Copying files" rate=bytes_per_second left=seconds %}`

    `unit` is `bytes` or a plural noun (`files`). Without a `total` the bar only says that work goes on.
    """
    in_bytes = unit == "bytes"
    return {
        "label": label,
        "value": finished,
        "total": total,
        "share": finished / total if total else None,
        "finished_text": formats.byte_size(finished) if in_bytes else formats.count(finished),
        "total_text": formats.byte_size(total) if in_bytes else formats.count(total),
        "unit": "" if in_bytes else unit,
        "rate": None
        if rate is None
        else formats.byte_rate(rate)
        if in_bytes
        else f"{formats.count(rate)}{formats.SPACE}{unit}/s",
        "left": formats.span(left) if left is not None else "",
    }
