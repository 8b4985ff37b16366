"""The documents that the schema shows for uploads and for what teams hold."""

_SHA256 = "7d08538860cb9392fd96df004bb918a14cd2fe5d5e6663f99d930c5655be83fe"


NEW_UPLOAD = {
    "files": [
        {
            "path": "config.json",
            "size": 718,
            "sha256": "1ac1218cbaa9ec69512607619b1f629738c0223bff4035e8af223cef36f9dfbb",
        },
        {"path": "model.safetensors", "size": 33_399_493, "sha256": _SHA256},
    ],
    "origin": "ci-runner-7:/builds/tiny-llama",
}


UPLOAD_CONTENT = {
    "sha256": _SHA256,
    "size": 33_399_493,
    "received_bytes": 16_777_216,
    "received": [[0, 16_777_215]],
    "is_whole": False,
}


UPLOAD = {
    "id": 12,
    "model": "tiny-llama",
    "state": "open",
    "reason": "",
    "stuck": "",
    "part_bytes": 262_144,
    "request_bytes": 16_777_216,
    "file_count": 2,
    "size_bytes": 33_400_211,
    "total_bytes": 33_400_211,
    "received_bytes": 16_777_934,
    "bytes_per_second": 11_200_000,
    "missing": [UPLOAD_CONTENT],
    "version": None,
    "author": "ada",
    "address": "10.0.0.7",
    "origin": "ci-runner-7:/builds/tiny-llama",
    "created_at": "2026-11-20T08:30:00Z",
    "expires_at": "2026-11-21T08:31:00Z",
    "ended_at": None,
}


UPLOAD_COMPLETE = {
    "version": "v2",
    "message": "Trained twice as long.",
    "lineage": {"parent": "v1", "job": "https://ci.example.org/jobs/8"},
}
