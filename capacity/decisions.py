"""What a plan was made of, beside what was seen, and what it costs and gains: kept with it, under a hash."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import orjson

from capacity.looks import ServiceLook
from capacity.models import CapacityPlan, Pool, PoolMember, ScalingPolicy
from capacity.observing import stable_target
from capacity.switch_times import switch_time

GUARDS = (
    "state", "workers", "budget", "dwell_seconds", "parallel_starts", "guarantee", "lending_limit",
    "borrowing_limit", "priority",
)  # fmt: skip
SHARES = ("guarantee", "limit", "weight")


def inputs_of(pool: Pool) -> dict[str, Any]:
    """Return limits and guards of the pool, and of each service its share, its policy and its switch time."""
    members = list(PoolMember.objects.filter(pool=pool).select_related("pool__cluster"))
    policies = dict(
        ScalingPolicy.objects.filter(member__in=members).order_by("number").values_list("member", "number")
    )
    services = {
        member.service: {
            **{name: getattr(member, name) for name in SHARES},
            "policy": policies.get(member.pk),
            "switch_seconds": round(switch_time(member, stable_target(member.service)), 1),
        }
        for member in members
    }
    return {**{name: getattr(pool, name) for name in GUARDS}, "services": services}


def cost_and_gain(
    looks: Iterable[ServiceLook], changes: Iterable[Mapping[str, Any]], inputs: Mapping[str, Any]
) -> tuple[float, dict[str, Any]]:
    """Return worker-seconds in which workers start, and by how many workers services are short before and
    after."""
    found = {change["service"]: change for change in changes}
    cost = sum(
        (change["after"] - change["before"]) * inputs["services"][service]["switch_seconds"]
        for service, change in found.items()
        if change["after"] > change["before"]
    )
    before = after = 0.0
    for look in looks:
        before += max(0.0, look.need - look.have)
        after += max(0.0, look.need - (found[look.service]["after"] if look.service in found else look.have))
    return round(float(cost), 1), {"short_before": round(before, 2), "short_after": round(after, 2)}


def digest_of(plan: CapacityPlan) -> str:
    made_of = [
        plan.pool_id, plan.kind, plan.inputs, plan.looks, plan.changes, plan.cost, plan.gain, plan.undoes_id
    ]  # fmt: skip
    return sha256(orjson.dumps(made_of, option=orjson.OPT_SORT_KEYS)).hexdigest()


def is_as_made(plan: CapacityPlan) -> bool:
    """Whether its row says what it was made of. No part of Slipway writes that again: a proposal that the
    load leaves behind is superseded by one of another number, so that a number stands for what people saw.
    """
    return not plan.digest or plan.digest == digest_of(plan)
