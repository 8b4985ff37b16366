"""How lines of charts are told apart, with colours and without, and what their axes are called."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from benchmarks.load.scenario import LoadScenario
from common.pages.charts import Dash, Paint

STYLES: Sequence[tuple[Paint, Dash]] = (
    ("candidate", "solid"),
    ("stable", "dashed"),
    ("earlier-1", "dotted"),
    ("earlier-2", "dash-dot"),
    ("warn", "dashed"),
    ("ink", "dotted"),
)


def unit_of_rate(load: LoadScenario) -> str:
    return _("requests in flight") if load.is_closed_loop else _("requests/s")
