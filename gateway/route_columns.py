"""A route and its fence as columns of its row, and as the audit record shows them."""

from typing import Any

from common.fence import Fence
from gateway.backends.state import cohort_to_dict
from gateway.models import sealed_key
from gateway.routes import RouteSpec


def fence_columns(fence: Fence) -> dict[str, Any]:
    return {"writer": fence.holder, "writer_turn": fence.turn}


def spec_columns(spec: RouteSpec) -> dict[str, Any]:
    return {
        "stable_target": spec.stable.name,
        "stable_version": spec.stable.version,
        "candidate_target": spec.candidate.name if spec.candidate else "",
        "candidate_version": spec.candidate.version if spec.candidate else "",
        "candidate_percent": spec.candidate_percent,
        "mirror_percent": spec.mirror_percent,
        "keeps_answers": bool(spec.answers_key),
        "cohort": cohort_to_dict(spec.cohort) if spec.cohort else None,
        "all_paths": spec.all_paths,
        "release_header": spec.release_header,
        "sealed_release_key": sealed_key(spec.release_key),
    }


def summary(spec: RouteSpec) -> dict[str, Any]:
    return (
        {
            "stable": spec.stable.version,
            "stable_target": spec.stable.name,
            "candidate": spec.candidate.version if spec.candidate else None,
            "candidate_percent": spec.candidate_percent,
        }
        | ({"mirror_percent": spec.mirror_percent} if spec.mirror_percent else {})
        | ({"cohort": cohort_to_dict(spec.cohort)} if spec.cohort else {})
    )
