"""The documents that the schema shows for statistics."""

_TIMES = {"count": 12, "mean": 4.2, "median": 3.1, "p90": 8.4}
_FIGURES = {
    "incidents": 12,
    "machines": 9,
    "open": 1,
    "actions": 14,
    "time_to_detect": _TIMES,
    "time_to_quarantine": _TIMES | {"mean": 6.3},
    "time_to_repair": _TIMES | {"count": 11, "mean": 1320.0},
    "lost_gpu_hours": 35.2,
    "cost": "87.65",
    "unpriced_gpu_hours": 0.0,
}
STATISTICS = {
    "since": "2026-10-21T08:30:00Z",
    "until": "2026-11-20T08:30:00Z",
    "currency": "USD",
    "availability": 0.9994,
    "total": _FIGURES,
    "faults": [{"fault": "xid.119", "title": "Xid 119: GSP RPC timeout", **_FIGURES}],
    "gpu_models": [
        {
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "gpus": 96,
            "gpu_hours": 69120.0,
            "availability": 0.9994,
            **_FIGURES,
        }
    ],
    "machines": [{"node_id": 7, "node": "gpu-7", "cluster": "prague", "is_lemon": False, **_FIGURES}],
    "over_time": [
        {
            "since": "2026-10-21T08:30:00Z",
            "until": "2026-10-22T00:00:00Z",
            "availability": {"NVIDIA H100 80GB HBM3": 0.998},
            "lost_gpu_hours": {"xid.119": 2.9},
        }
    ],
}
PRICES = {
    "currency": "USD",
    "prices": [{"gpu_model": "H100", "cluster": "", "per_hour": "2.49"}],
    "revision": 3,
}
PRICES_CHANGE = {
    "currency": "USD",
    "prices": [{"gpu_model": "H100", "cluster": "", "per_hour": "2.49"}],
    "revision": 3,
    "reason": "New contract.",
}
