"""The documents that the schema shows for the store."""

COLLECTION = {
    "id": 7,
    "state": "done",
    "stuck": "",
    "asked_by": "ada",
    "reason": "The disk fills up.",
    "grace_hours": 24,
    "began_at": "2026-11-21T09:00:00Z",
    "ended_at": "2026-11-21T09:00:04Z",
    "progress": 1.0,
    "blobs": 4_012,
    "bytes": 812_400_211_332,
    "waiting_blobs": 3,
    "waiting_bytes": 13_400_211,
    "deleted_blobs": 12,
    "deleted_bytes": 53_600_844,
}


NEW_COLLECTION = {"reason": "The disk fills up.", "grace_hours": 2}


CHECK = {
    "id": 2,
    "state": "done",
    "stuck": "",
    "asked_by": "store keeper",
    "reason": "",
    "bytes_per_second": 104_857_600,
    "began_at": "2026-11-21T01:00:00Z",
    "ended_at": "2026-11-21T03:09:11Z",
    "blobs_done": 4_012,
    "blobs_total": 4_012,
    "bytes_done": 812_400_211_332,
    "bytes_total": 812_400_211_332,
    "damaged": 1,
    "missing": 0,
}


FINDING = {
    "id": 5,
    "state": "aside",
    "reason": "",
    "stuck": "",
    "sha256": "7d08538860cb9392fd96df004bb918a14cd2fe5d5e6663f99d930c5655be83fe",
    "bytes": 13_399_493,
    "detail": "Its content has another sha256: 1ac1218cbaa9…",
    "versions": ["tiny-llama:v2"],
    "check": 2,
    "found_at": "2026-11-21T02:11:00Z",
    "ended_at": None,
}


STORE = {
    "blobs": 4_009,
    "bytes": 812_386_811_121,
    "version_bytes": 3_412_024_606_708,
    "dedup_factor": 4.2,
    "waiting_blobs": 3,
    "waiting_bytes": 13_400_211,
    "free_bytes": None,
    "kind": "bucket",
    "where": "s3://models/slipway/",
    "cache_bytes": 26_811_402_118,
    "cache_limit_bytes": 214_748_364_800,
    "problem": "",
    "grace_hours": 24,
    "last_collection": COLLECTION,
    "last_check": CHECK,
    "open_findings": 1,
}


TEAM_STORAGE = {
    "team": "language",
    "limit_bytes": 2_000_000_000_000,
    "held_bytes": 1_400_000_000_000,
    "reserved_bytes": 16_777_216,
    "reason": "Its share of the disk.",
    "changed_by": "ada",
    "changed_at": "2026-11-20T08:30:00Z",
}


TEAM_STORAGE_PUT = {"limit_bytes": 2_000_000_000_000, "reason": "Its share of the disk."}
