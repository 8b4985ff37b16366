"""The documents that the schema shows for GPU health."""

RAW = "6,3964,206764307,-;NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', GPU has fallen off the bus."
FINDING = {
    "id": 12,
    "cluster": "local",
    "node": "gpu-7",
    "fault": "xid.79",
    "title": "Xid 79: GPU has fallen off the bus",
    "device": "0000:9b:00",
    "gpu_uuid": "GPU-509665ad-b600-ac93-3616-d754b23d636d",
    "severity": "fatal",
    "outcome": "propose",
    "ladder": ["power_cycle", "replace"],
    "drain": "node",
    "verification": "dcgm_diagnostic",
    "rule": "default-xid.79",
    "citation": "nvidia: RESTART_BM; CONTACT_SUPPORT",
    "reasons": ["default-xid.79: seen once"],
    "count": 1,
    "first_at": "2026-11-20T08:30:00Z",
    "last_at": "2026-11-20T08:30:00Z",
    "raw": RAW,
    "state": "open",
    "opened_at": "2026-11-20T08:30:01Z",
    "ended_at": None,
    "closed_by": "",
    "close_reason": "",
    "drill": None,
}
GPU_COUNT = {
    "node": "gpu-7",
    "cluster": "local",
    "expected": 8,
    "present": {"agent": 7, "cluster": 7},
    "fixed": None,
    "fixed_by": "",
    "fixed_reason": "",
    "short_since": "2026-11-20T08:30:00Z",
}
EXPECTED_GPUS = {"node": "gpu-7", "count": 7, "reason": "GPU 3 is at the vendor."}
CLOSING = {"reason": "The GPU was reseated and passed dcgmi diag -r 3."}
RULE = {
    "name": "default-xid.79",
    "fault": "xid.79",
    "title": "Xid 79: GPU has fallen off the bus",
    "enabled": True,
    "mode": "propose",
    "severity": "fatal",
    "conditions": "",
    "ladder": ["power_cycle", "replace"],
    "drain": "node",
    "verification": "dcgm_diagnostic",
    "source": "NVIDIA Xid catalog",
    "says": "RESTART_BM; CONTACT_SUPPORT",
    "is_inferred": False,
    "is_changed": False,
    "is_own": False,
    "changed_by": "",
    "changed_at": None,
    "reason": "",
}
PROPOSED = {"mode": "record", "ladder": ["reboot", "replace"]}
RULE_CHANGE = PROPOSED | {"reason": "Our boards come back after a warm reboot."}
TRIAL = {
    "days": 30,
    "readings": 4,
    "verdicts": 1,
    "differences": [
        {
            "node": "gpu-7",
            "device": "0000:9b:00",
            "fault": "xid.79",
            "before": {"outcome": "propose", "severity": "fatal", "ladder": ["power_cycle", "replace"]},
            "after": {"outcome": "record", "severity": "fatal", "ladder": ["reboot", "replace"]},
        }
    ],
}
READINGS = {
    "readings": [
        {
            "source": "kernel_log",
            "fault": "xid.79",
            "kind": "fault",
            "at": 1763627400.0,
            "clock": "epoch",
            "gpu_bus_id": "0000:9b:00",
            "details": {"text": "GPU has fallen off the bus."},
            "raw": RAW,
            "origin": "1f0c3a52-6b1e-4a7e-9a43-0d1c2e5f6a7b/3964",
        }
    ],
    "sent_at": 1763627401.2,
}
STORED = {"stored": 1, "known": 0, "refused": [{"entry": 1, "reason": "source must be one of nvml, dcgm."}]}
CHECK = {
    "id": 12,
    "node": "gpu-7",
    "cluster": "eu-1",
    "level": 2,
    "state": "failed",
    "stuck": "",
    "why": "1 of 8 checks failed.",
    "passed": False,
    "checks": [
        {
            "name": "host_to_gpu",
            "outcome": "failed",
            "gpu_uuid": "GPU-509665ad-b600-ac93-3616-d754b23d636d",
            "gpu_bus_id": "0000:9b:00",
            "measured": 11.2,
            "expected": 37.8,
            "unit": "GB/s",
            "words": "11 GB/s, less than the 38 that NVIDIA H100 80GB HBM3 must reach.",
        }
    ],
    "ordered_by": "olga",
    "reason": "after the riser was replaced",
    "ordered_at": "2026-11-20T08:30:00Z",
    "began_at": "2026-11-20T08:30:04Z",
    "ended_at": "2026-11-20T08:32:15Z",
    "cancelled_by": "",
}
NEW_CHECK = {
    "node": "gpu-7",
    "cluster": "eu-1",
    "level": 2,
    "wait_minutes": 60,
    "reason": "after the riser was replaced",
}
CHECK_CANCELLING = {"reason": "not needed any more"}
EVENT = {
    "events": [
        {
            "id": "m-2026-1123",
            "machine": "gpu-7",
            "fault": "provider.maintenance",
            "begins_at": "2026-11-24T02:00:00Z",
            "state": "scheduled",
            "says": "A switch of the rack is replaced.",
        }
    ]
}
EVENTS_STORED = {
    "stored": 1,
    "known": 0,
    "refused": [{"event": "m-2026-1124", "reason": "No machine that you may report of is called gpu-9."}],
}
COMPARISON = {
    "fault": "xid.63",
    "title": "Xid 63: GPU memory remapping event",
    "is_disputed": True,
    "statements": {"nvidia": ["ignore"], "eks": ["reboot", "replace"]},
}
COMPARISONS = {"results": [COMPARISON], "next": None, "previous": None}

THOUGHT_RULE = {
    "fault": "ecc.single_bit",
    "conditions": "count=5 window_seconds=86400",
    "severity": "warning",
    "ladder": ["reset_gpu", "contact_support"],
    "drain": "gpu",
    "mode": "propose",
}
NEW_RULE = {**THOUGHT_RULE, "reason": "Single-bit errors came before each double-bit one here."}
PRESET = {
    "name": "eks",
    "title": "Amazon EKS",
    "rules": 257,
    "acting": 55,
    "is_used": False,
    "clusters": ["eu-eks"],
}
PRESET_TRIAL = {"preset": "eks", "cluster": "eu-eks"}
PRESET_CHOICE = {**PRESET_TRIAL, "reason": "As the nodes of this cluster are repaired by EKS."}
