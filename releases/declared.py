"""Whether the workers of a service count what a plan judges beside the gateway's counts."""

from collections.abc import Collection, Iterable, Sequence

from django.utils.translation import gettext as _

from common.sentences import listed
from models_registry.models import Version
from models_registry.selectors.versions import declared_by_app
from releases.judge.rules import JudgeRules
from serving.protocol import ENGINES_WITH_ROUTES, TRUNCATED

OF_ALL = ("ttft", "tpot")


def not_declared(
    rules: JudgeRules, *, engine: str, versions: Sequence[Version], of_service: Collection[str]
) -> str:
    """Why a release cannot be judged by what the rules name; empty: it can.

    All versions must declare an indicator: where one does not, there is nothing to compare. `of_service`:
    those that the service has, which others than its workers count.
    """
    built_in = () if engine in ENGINES_WITH_ROUTES else (TRUNCATED,)
    indicators = [name for name in rules.indicators if name not in (*of_service, *built_in)]
    if indicators and engine not in ENGINES_WITH_ROUTES:
        words = _(
            "The plan judges the indicator %(name)s, and workers of the engine %(engine)s count truncated "
            "alone: only services of your own code declare indicators. Add it to the service as one that is "
            "pushed or queried."
        )
        return words % {"name": indicators[0], "engine": engine}
    wanted_routes = (
        [of for of in rules.latencies if of not in OF_ALL] if engine in ENGINES_WITH_ROUTES else []
    )
    if not (indicators or wanted_routes):
        return ""
    for version in versions:
        declared = declared_by_app(version)
        # None: its code has other names than literals. Then the analysis shows whether it is counted.
        if name := _missing(indicators, declared.indicators):
            words = _(
                "The plan judges the indicator %(name)s, which %(version)s does not declare (it declares: "
                "%(names)s). Take it out of the plan, or release a version that declares it first."
            )
            return words % {"name": name, "version": version, "names": _names(declared.indicators)}
        if name := _missing(wanted_routes, declared.routes):
            words = _(
                "The plan judges the latency of %(name)s, a route that %(version)s does not have (it has: "
                "%(names)s). Take it out of the plan, or release a version that has it first."
            )
            return words % {"name": name, "version": version, "names": _names(declared.routes)}
    return ""


def _missing(wanted: Iterable[str], known: frozenset[str] | None) -> str:
    return "" if known is None else next((name for name in wanted if name not in known), "")


def _names(known: frozenset[str] | None) -> str:
    return listed(sorted(known)) if known else "–"
