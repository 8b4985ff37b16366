"""The documents that the schema shows for healing."""

from gpu_health.healing.limits import HealingLimits

INCIDENT = {
    "id": 4,
    "cluster": "prague",
    "node": "gpu-7",
    "pool": "prague/default",
    "fault": "xid.119",
    "title": "Xid 119: GSP RPC timeout",
    "device": "0000:9b:00",
    "gpu_uuid": "GPU-509665ad-b600-ac93-3616-d754b23d636d",
    "severity": "fatal",
    "rule": "default-xid.119",
    "state": "quarantined",
    "state_since": "2026-11-20T08:30:03Z",
    "reason": "The machine is cordoned and tainted.",
    "ladder": ["reset_gpu", "contact_support"],
    "rung": 0,
    "action": "reset_gpu",
    "hold": "slots",
    "hold_reason": "1 of 1 slots of prague/default are taken.",
    "waits_for_approval": False,
    "approved_by": "",
    "held_by": "",
    "is_quarantined": True,
    "former_cordon": None,
    "check_result": None,
    "acts": 0,
    "first_at": "2026-11-20T08:30:00Z",
    "opened_at": "2026-11-20T08:30:01Z",
    "quarantined_at": "2026-11-20T08:30:02Z",
    "acted_at": None,
    "returned_at": None,
    "ended_at": None,
    "drill": None,
}
TIMELINE = {
    "results": [
        {
            "at": "2026-11-20T08:30:03Z",
            "state": "quarantined",
            "actor": "gpu-health",
            "words": "The machine is cordoned and tainted.",
        }
    ],
    "next": None,
    "previous": None,
}
EVIDENCE = {
    "incident": 4,
    "evidence": {
        "machine": {"name": "gpu-7"},
        "gpus": [{"serial": "1650522001234"}],
        "readings": [],
        "outputs": [],
    },
}
REASON = {"reason": "The rack was looked at."}
STOPPING = {"reason": "Every machine of the row reports the same fault.", "stop_drains": True}
CANCELLING = REASON | {"return_to_service": False}
POLICY = {
    "mode": "act",
    "dry_clusters": ["staging"],
    "windows": [{"start": "22:00", "end": "05:00", "days": [0, 1, 2, 3, 4], "time_zone": "Europe/Zurich"}],
    "drain": {"grace_seconds": 300, "namespaces": {"training": {"policy": "finish", "within_seconds": 3600}}},
    "limits": HealingLimits().to_dict() | {"approved_actions": list(HealingLimits().approved_actions)},
    "two_people": False,
    "waiting_changes": {},
    "kill_switch_at": None,
    "kill_switch_by": "",
    "kill_switch_reason": "",
}
POLICY_CHANGE = {"mode": "act", "limits": {"slots_percent": 5}, "reason": "Two weeks of dry run were right."}
POOL = {
    "id": 1,
    "name": "prague/default",
    "slots_taken": 0,
    "breaker_opened_at": "2026-11-20T08:31:00Z",
    "breaker_reason": "20 of 40 machines of prague/default would be cordoned within 5 min.",
    "breaker_reset_at": None,
}
CLOSING_BREAKER = REASON | {"backlog": "discard"}
