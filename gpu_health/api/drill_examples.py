"""The documents that the schema shows for drills."""

VERDICT = {
    "fault": "xid.79",
    "outcome": "propose",
    "severity": "fatal",
    "ladder": ["power_cycle", "replace"],
    "drain": "node",
    "rule": "default-xid.79",
}
DRILL = {
    "id": 3,
    "node": "gpu-7",
    "cluster": "staging",
    "scenario": "xid-79",
    "title": "GPU fallen off the bus",
    "way": "agent",
    "acts": False,
    "gpus": 8,
    "gpu": 0,
    "state": "passed",
    "stuck": "",
    "why": "Dry run: a drill that only says what would be done.",
    "finding": 41,
    "incident": 12,
    "report": {
        "steps": [
            {
                "name": "found",
                "words": "fatal: power_cycle > replace",
                "at": "2026-11-20T08:30:03Z",
                "seconds": 1.2,
            }
        ],
        "verdict": {"expected": VERDICT, "found": VERDICT, "differences": []},
        "detected_seconds": 1.2,
        "quarantined_seconds": None,
        "repaired_seconds": None,
        "spent_seconds": {"played": 1.1},
    },
    "ordered_by": "olga",
    "reason": "before the new rules go live",
    "ordered_at": "2026-11-20T08:29:55Z",
    "played_at": "2026-11-20T08:30:01Z",
    "ended_at": "2026-11-20T08:30:06Z",
    "cancelled_by": "",
}
NEW_DRILL = {
    "scenario": "xid-79",
    "node": "gpu-7",
    "cluster": "staging",
    "acts": False,
    "gpus": 8,
    "gpu": 0,
    "reason": "before the new rules go live",
}
SCENARIO = {
    "name": "xid-79",
    "title": "GPU fallen off the bus",
    "says": "The driver loses the GPU: Xid 79, and NVML says that it is lost.",
    "document": "NVIDIA Xid catalog, Xid 79",
    "fault": "xid.79",
    "ways": ["agent", "condition"],
    "healed_by": ["power_cycle", "replace"],
    "expected": VERDICT,
}
CLUSTER = {"cluster": "staging", "is_test": True, "reason": "no tenants here"}
