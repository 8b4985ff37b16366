"""The rules of an HTTPRoute that are ours, and how they are put among those of others. Pure.

As the API server gives them back, defaults filled in: so that what is there can be compared with what is
wanted. `spec.rules` is one value for Kubernetes, whoever wrote which rule: it is read, changed and written
under its resourceVersion.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

from gateway.backends.checks import LABEL
from gateway.cohorts import cookie_pattern
from gateway.routes import Cohort, NamedService, RouteSpec, RouteTarget, Side
from serving.protocol import CHOSEN_BY_HEADER, KEEP_HEADER, PREFIX_HEADER

Rule = dict[str, Any]
Places = Mapping[str, NamedService]
"""By target: where its Service is."""

API_PREFIX = "/v1"
SIDE_HEADER, KEY_HEADER = "x-release", "x-release-key"
POOL_GROUP = "inference.networking.k8s.io"
_LONGEST_SLUG = 40


def slug(service: str) -> str:
    """A part of names in Kubernetes that stands for this service alone; never with a dot."""
    if LABEL.fullmatch(service) and len(service) <= _LONGEST_SLUG:
        return service
    readable = re.sub(r"[^a-z0-9]+", "-", service.lower()).strip("-")[: _LONGEST_SLUG - 9].strip("-")
    return f"{readable or 'x'}--{sha256(service.encode()).hexdigest()[:8]}"


def rule_names(service: str) -> tuple[str, str, str, str]:
    """Return the names of the rules of the split, of requests that choose the canary or stable, and of a
    cohort's.
    """
    first = f"slipway.{slug(service)}"
    return first, f"{first}.canary", f"{first}.stable", f"{first}.cohort"


def rules_of(
    spec: RouteSpec, places: Places, *, home: str, timeout: str, kind: Callable[..., Rule] | None = None
) -> list[Rule]:
    """`home`: the namespace of the route. `timeout`: empty where the gateway has none to set. `kind` of
    backends: `to_pool`, or a Service."""
    to = kind or _ref
    split, canary, stable, cohort = rule_names(spec.name)
    sides: list[tuple[str, Side, RouteTarget]] = [(stable, "stable", spec.stable)]
    if spec.candidate is not None:
        sides.insert(0, (canary, "canary", spec.candidate))
    made = [
        _rule(
            name,
            headers=_choosing(side, spec),
            says=[{"name": CHOSEN_BY_HEADER, "value": "client"}],
            silences=[SIDE_HEADER, KEY_HEADER],
            refs=[to(places[target.name], home, 1)],
            spec=spec,
            timeout=timeout,
        )
        for name, side, target in (sides if _may_choose(spec) else [])
    ]
    if spec.cohort is not None and spec.candidate is not None:
        made.append(
            _rule(
                cohort,
                headers=[_matching(spec.cohort)],
                says=[{"name": CHOSEN_BY_HEADER, "value": "client"}],
                silences=[SIDE_HEADER, KEY_HEADER],
                refs=[to(places[spec.candidate.name], home, 1)],
                spec=spec,
                timeout=timeout,
            )
        )
    shares = [(spec.stable, 100 - spec.candidate_percent)]
    if spec.candidate is not None:
        shares.append((spec.candidate, spec.candidate_percent))
    by_weight = _rule(
        split,
        headers=[],
        says=[{"name": KEEP_HEADER, "value": spec.answers_key}] if spec.answers_key else [],
        silences=[CHOSEN_BY_HEADER, SIDE_HEADER, KEY_HEADER],
        # Whoever gets nothing is left out: no session sticks to it, and its Service may go.
        refs=[to(places[target.name], home, weight) for target, weight in shares if weight],
        spec=spec,
        timeout=timeout,
    )
    if spec.candidate is not None and spec.mirror_percent:
        by_weight["filters"].append(_mirror(places[spec.candidate.name], home, spec.mirror_percent))
    return [*made, by_weight]


def split_rule(
    name: str,
    shares: Mapping[RouteTarget, int],
    places: Places,
    *,
    all_paths: bool,
    home: str,
    timeout: str,
    kind: Callable[..., Rule] | None = None,
) -> Rule:
    """Return a rule that splits the requests of an address by weight, and lets nobody choose."""
    first = next(iter(shares))
    made = _rule(
        "",
        headers=[],
        says=[],
        silences=[CHOSEN_BY_HEADER, SIDE_HEADER, KEY_HEADER],
        refs=[(kind or _ref)(places[target.name], home, weight) for target, weight in shares.items()],
        spec=RouteSpec(name, first, None, 0, all_paths=all_paths),
        timeout=timeout,
    )
    del made["name"]  # its HTTPRoute has no other rule
    return made


def without_mirrors(present: Sequence[Rule], service: str, targets: Collection[str]) -> list[Rule]:
    """Return the filters without our copies to these targets: a filter has no name to be known by."""

    def is_mirror_of_ours(one: Rule) -> bool:
        ref = (one.get("requestMirror") or {}).get("backendRef") or {}
        return one["type"] == "RequestMirror" and ref.get("name") in targets

    return [
        rule | {"filters": [one for one in rule["filters"] if not is_mirror_of_ours(one)]}
        if is_ours(rule, service) and rule.get("filters")
        else rule
        for rule in present
    ]


def _mirror(place: NamedService, home: str, percent: int) -> Rule:
    ref = {key: value for key, value in _ref(place, home, 1).items() if key != "weight"}
    mirror: Rule = {"backendRef": ref}
    if percent < 100:
        mirror["percent"] = percent
    return {"type": "RequestMirror", "requestMirror": mirror}


def merged(present: Sequence[Rule], wanted: Sequence[Rule], service: str) -> list[Rule]:
    """`present` with our rules as `wanted`, in their places; what others have added to them stays."""
    left = list(wanted)
    result: list[Rule] = []
    for rule in present:
        if not is_ours(rule, service):
            result.append(rule)
        elif (match := _counterpart(rule, left)) is not None:
            left.remove(match)
            result.append(_with_additions(rule, match))
    return [*result, *left]


def emptied(present: Sequence[Rule], service: str) -> list[Rule]:
    """Return the rules without ours; an HTTPRoute needs one, so the last stays and leads nowhere (500)."""
    rest = [rule for rule in present if not is_ours(rule, service)]
    if rest:
        return rest
    return [{"name": rule_names(service)[0], "matches": [{"path": _api_of(service)}]}]


def ours(present: Sequence[Rule], service: str) -> list[Rule]:
    return [rule for rule in present if is_ours(rule, service)]


def is_ours(rule: Rule, service: str) -> bool:
    """Tell whether the rule is ours, by its name; by its matches where the Gateway API is too old for
    names.
    """
    if "name" in rule:
        return rule["name"] in rule_names(service)
    matches = rule.get("matches") or ()
    if _sets(rule, PREFIX_HEADER):
        return any(match.get("path") == _all_of(service) for match in matches)
    is_cohort = any(match.get("path") == _api_of(service) for match in matches) and _sets(
        rule, CHOSEN_BY_HEADER
    )
    return is_cohort or (bool(matches) and all(_is_our_match(one, _api_of(service)) for one in matches))


def rivals(present: Sequence[Rule], service: str, *, all_paths: bool = False) -> list[str]:
    """Names of others' rules that match what ours match: the first of two such rules gets every request."""
    path = _all_of(service) if all_paths else _api_of(service)
    return [
        rule.get("name", path["value"])
        for rule in present
        if not is_ours(rule, service) and any(_is_our_match(one, path) for one in rule.get("matches") or ())
    ]


def key_of(present: Sequence[Rule], service: str) -> str:
    """The release key that our rules demand; empty: none."""
    for rule in ours(present, service):
        for match in rule.get("matches") or ():
            for header in match.get("headers") or ():
                if header["name"].lower() == KEY_HEADER:
                    return str(header["value"])
    return ""


def _sets(rule: Rule, header: str) -> bool:
    """Only our rules set these: so one is known whose headers are a cohort's, or that takes every path."""
    changes = [one.get("requestHeaderModifier") or {} for one in rule.get("filters") or ()]
    return any(one["name"].lower() == header for change in changes for one in change.get("set", ()))


def _matching(cohort: Cohort) -> Rule:
    if cohort.cookie:
        return {"type": "RegularExpression", "name": "cookie", "value": cookie_pattern(cohort)}
    return {"type": "Exact", "name": cohort.header, "value": cohort.value}


def _is_our_match(match: Mapping[str, Any], path: Mapping[str, str]) -> bool:
    names = {header["name"].lower() for header in match.get("headers") or ()}
    beside = set(match) - {"path", "headers"}
    return match.get("path") == path and names <= {SIDE_HEADER, KEY_HEADER} and not beside


def _api_of(service: str) -> dict[str, str]:
    # Prefixes are compared element by element: /chat/v1 takes neither /chat/v10 nor /chat-large/v1.
    return {"type": "PathPrefix", "value": f"/{service}{API_PREFIX}"}


def _all_of(service: str) -> dict[str, str]:
    return {"type": "PathPrefix", "value": f"/{service}"}


def _may_choose(spec: RouteSpec) -> bool:
    return spec.release_header == "open" or (spec.release_header == "secret" and bool(spec.release_key))


def _choosing(side: Side, spec: RouteSpec) -> list[Rule]:
    headers = [{"type": "Exact", "name": SIDE_HEADER, "value": side}]
    if spec.release_header == "secret":
        headers.append({"type": "Exact", "name": KEY_HEADER, "value": spec.release_key})
    return headers


def _rule(
    name: str,
    *,
    headers: list[Rule],
    says: list[Rule],
    silences: list[str],
    refs: list[Rule],
    spec: RouteSpec,
    timeout: str,
) -> Rule:
    match: Rule = {"path": _all_of(spec.name) if spec.all_paths else _api_of(spec.name)}
    if headers:
        match["headers"] = headers
    prefix = "/" if spec.all_paths else API_PREFIX
    rewrite = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": prefix}}
    changes: Rule = {"remove": silences}
    if spec.all_paths:
        says = [*says, {"name": PREFIX_HEADER, "value": f"/{spec.name}"}]
    if says:
        changes["set"] = says
    rule: Rule = {
        "name": name,
        "matches": [match],
        "filters": [
            {"type": "URLRewrite", "urlRewrite": rewrite},
            {"type": "RequestHeaderModifier", "requestHeaderModifier": changes},
        ],
        "backendRefs": refs,
    }
    if timeout:
        rule["timeouts"] = {"request": timeout}
    return rule


def _ref(place: NamedService, home: str, weight: int) -> Rule:
    ref = {"group": "", "kind": "Service", "name": place.name, "port": place.port, "weight": weight}
    return ref if place.namespace == home else ref | {"namespace": place.namespace}


def to_pool(place: NamedService, home: str, weight: int) -> Rule:
    """The InferencePool of the same name, whose picker chooses the pod. Copies go to the Service all the
    same."""
    ref = {"group": POOL_GROUP, "kind": "InferencePool", "name": place.name, "weight": weight}
    return ref if place.namespace == home else ref | {"namespace": place.namespace}


def _counterpart(rule: Rule, wanted: Sequence[Rule]) -> Rule | None:
    for one in wanted:
        if rule["name"] == one["name"] if "name" in rule else _headers(rule) == _headers(one):
            return one
    return None


def _headers(rule: Rule) -> list[Any]:
    return [
        sorted((one["name"].lower(), one["value"]) for one in match.get("headers") or ())
        for match in rule.get("matches") or ()
    ]


def _with_additions(present: Rule, wanted: Rule) -> Rule:
    """Our rule as it is wanted, with the filters, limits and fields that others gave it."""
    result = {**present, **wanted}
    result["filters"] = _filters(present.get("filters") or (), wanted["filters"])
    result["backendRefs"] = [_with_extras(one, present) for one in wanted["backendRefs"]]
    if "timeouts" in present:
        result["timeouts"] = present["timeouts"]
    if "name" not in present:
        # Where names are not kept, one more would look like a change for ever.
        result.pop("name")
    return result


def _with_extras(ref: Rule, present: Rule) -> Rule:
    for one in present.get("backendRefs") or ():
        same = ("kind", "name", "namespace")
        if [one.get(key) for key in same] == [ref.get(key) for key in same]:
            return {**one, **ref}
    return ref


def _filters(present: Sequence[Rule], wanted: Sequence[Rule]) -> list[Rule]:
    """A rule may have one filter of each of our two types: what others change in it stays beside ours."""
    by_type = {one["type"]: one for one in wanted}
    result = []
    for one in present:
        # Of mirrors there may be several: those of others stay beside ours.
        mine = by_type.pop(one["type"], None) if one["type"] != "RequestMirror" else None
        result.append(one if mine is None else _both(one, mine))
    return [*result, *by_type.values()]


def _both(theirs: Rule, mine: Rule) -> Rule:
    if mine["type"] == "URLRewrite":
        return {**theirs, "urlRewrite": {**theirs.get("urlRewrite", {}), **mine["urlRewrite"]}}
    before, wanted = theirs.get("requestHeaderModifier", {}), mine["requestHeaderModifier"]
    known = {one["name"].lower() for one in wanted.get("set", ())} | set(wanted["remove"])
    merged_changes: Rule = dict(before)
    for verb in ("set", "add"):
        kept = [one for one in before.get(verb, ()) if one["name"].lower() not in known]
        ours_too = wanted.get(verb, [])
        merged_changes[verb] = [*kept, *ours_too]
    removed = [one for one in before.get("remove", ()) if one.lower() not in known]
    merged_changes["remove"] = [*removed, *wanted["remove"]]
    return {**theirs, "requestHeaderModifier": {key: one for key, one in merged_changes.items() if one}}
