"""The documents that the schema shows for exports."""

from common.api.samples import DIGEST
from hubs.api.examples import COMMIT

EXPORT = {
    "id": 9,
    "model": "tiny-llama",
    "version": "v2",
    "digest": DIGEST,
    "kind": "huggingface",
    "endpoint": "https://huggingface.co",
    "repo_id": "acme/tiny-llama",
    "branch": "main",
    "has_token": False,
    "create": True,
    "private": True,
    "allow_patterns": [],
    "ignore_patterns": ["optimizer.*"],
    "why": "The customer's evaluation runs against the hub.",
    "state": "done",
    "reason": "Commit 4a6b1f0c6a2f holds it. It was compared file by file.",
    "stuck": "",
    "commit": COMMIT,
    "progress": {
        "bytes_done": 13_400_211,
        "bytes_total": 13_400_211,
        "files_done": 2,
        "files_total": 2,
        "bytes_per_second": 0,
        "seconds_left": None,
    },
    "author_name": "bo",
    "created_at": "2026-11-21T09:30:00Z",
    "began_at": "2026-11-21T09:30:00Z",
    "ended_at": "2026-11-21T09:30:12Z",
}
NEW_EXPORT = {
    "model": "tiny-llama",
    "version": "v2",
    "repo_id": "acme/tiny-llama",
    "branch": "main",
    "token": "hf_secret",
    "create": True,
    "private": True,
    "ignore_patterns": ["optimizer.*"],
    "reason": "The customer's evaluation runs against the hub.",
}
EXPORT_RETRY = {"token": "hf_secret", "reason": "The old token could only read."}
