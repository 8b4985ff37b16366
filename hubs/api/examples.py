"""The documents that the schema shows for sources on hubs and their syncs."""

COMMIT = "4a6b1f0c6a2f4d0f9a1f0a5a3c2b1d0e9f8a7b6c"


HUB_SOURCE = {
    "id": 3,
    "model": "tiny-llama",
    "endpoint": "https://huggingface.co",
    "kind": "huggingface",
    "repo_id": "acme/tiny-llama",
    "revision": "main",
    "has_token": True,
    "allow_patterns": [],
    "ignore_patterns": ["*.bin", "*.msgpack"],
    "every": 3600,
    "due_at": "2026-11-20T09:30:00Z",
    "takes_notices": True,
    "release_to": "chat",
    "release_plan": "canary",
    "stuck": "",
    "last_sync": {
        "id": 41,
        "state": "done",
        "cause": "",
        "reason": "tiny-llama:v2 is ready.",
        "commit": COMMIT,
        "version": "v2",
        "began_at": "2026-11-20T08:30:00Z",
        "ended_at": "2026-11-20T08:30:42Z",
    },
    "created_at": "2026-11-19T16:05:00Z",
    "created_by": "ada",
}


NEW_HUB_SOURCE = {
    "model": "tiny-llama",
    "repo_id": "acme/tiny-llama",
    "revision": "main",
    "token": "hf_secret",
    "ignore_patterns": ["*.bin", "*.msgpack"],
    "every": 3600,
    "release_to": "chat",
    "release_plan": "canary",
}


HUB_SOURCE_CHANGE = {"revision": "v2.0", "every": None}


NOTICE_SECRET = {
    "address": "https://slipway.example.org/hub-notices/3/",
    "secret": "p0Z1cXz0mJ7xkq0d3d1cS2m0r8wq6oXv3mJmQ2d9b1E",
}


HUB_SYNC = {
    "id": 42,
    "source": 3,
    "model": "tiny-llama",
    "repository": "acme/tiny-llama@main",
    "state": "fetching",
    "cause": "",
    "reason": "",
    "stuck": "",
    "commit": COMMIT,
    "version": "v3",
    "progress": {
        "bytes_done": 6_400_000,
        "bytes_total": 13_400_211,
        "files_done": 3,
        "files_total": 5,
        "bytes_per_second": 1_600_000,
        "seconds_left": 4.4,
    },
    "is_scheduled": False,
    "author_name": "ada",
    "created_at": "2026-11-20T09:30:00Z",
    "began_at": "2026-11-20T09:30:00Z",
    "ended_at": None,
}


IMPORT_PLACES = {
    "directories": ["/srv/models", "/var/lib/slipway/imports"],
    "hubs": ["https://huggingface.co"],
    "hub_kinds": ["huggingface", "modelscope"],
}
