"""The documents that the schema shows for models, versions, aliases and sources on hubs."""

from common.api.samples import DIGEST, FINGERPRINT

MODEL = {
    "name": "tiny-llama",
    "team": "language",
    "task": "text-generation",
    "description": "Answers questions about the standard library.",
    "latest_version": {
        "name": "v2",
        "digest": DIGEST,
        "size_bytes": 13_400_211,
        "architecture": "LlamaForCausalLM",
        "parameters": 3_345_408,
        "created_at": "2026-11-20T08:30:00Z",
    },
    "aliases": [{"name": "production", "version": "v1"}],
    "protected_aliases": ["production"],
    "version_count": 2,
    "size_bytes": 26_800_422,
    "served": ["service chat (stable)"],
    "created_at": "2026-11-19T16:00:00Z",
    "created_by": "ada",
}


NEW_MODEL = {
    "name": "tiny-llama",
    "task": "text-generation",
    "description": "Answers questions about the standard library.",
    "team": "language",
}


MODEL_CHANGE = {
    "description": "Answers questions about the standard library, in English.",
    "protected_aliases": ["production"],
}


NEW_VERSION = {
    "source": "/srv/models/tiny-llama/run-8",
    "message": "Trained twice as long.",
    "lineage": {
        "parent": "v1",
        "base_model": "hf://acme/tiny-llama-base@main",
        "job": "https://ci.example.org/jobs/8",
        "data": ["hf://datasets/acme/questions", "s3://corpora/answers-2026-10"],
    },
    "ignore_patterns": ["*.bin"],
}


VERSION = {
    "model": "tiny-llama",
    "name": "v2",
    "number": 2,
    "state": "ready",
    "reason": "",
    "stuck": "",
    "digest": DIGEST,
    "size_bytes": 13_400_211,
    "file_count": 2,
    "architecture": "LlamaForCausalLM",
    "parameters": 3_345_408,
    "context_length": 2048,
    "dtype": "F32",
    "quantization": "",
    "message": "Trained twice as long.",
    "author": "ada",
    "source": {
        "kind": "directory",
        "uri": "file:///srv/models/tiny-llama/run-8",
        "endpoint": "",
        "commit": "",
        "allow_patterns": [],
        "ignore_patterns": ["*.bin"],
        "uploaded_by": "",
        "address": "",
        "origin": "",
    },
    "signature": {
        "standing": "trusted",
        "reason": "Signed by the key release-ci.",
        "made": [
            {
                "origin": "slipway",
                "verdict": "valid",
                "reason": "",
                "fingerprint": FINGERPRINT,
                "key": "release-ci",
                "verified_at": "2026-11-20T08:30:02Z",
            }
        ],
    },
    "progress": {
        "bytes_done": 13_400_211,
        "bytes_total": 13_400_211,
        "files_done": 2,
        "files_total": 2,
        "bytes_per_second": 412_000_000,
        "seconds_left": None,
    },
    "aliases": ["staging"],
    "tags": ["evaluated", "language=en"],
    "served": [],
    "same_content_as": "",
    "created_at": "2026-11-20T08:30:00Z",
    "ready_at": "2026-11-20T08:30:02Z",
}


VERSION_DETAIL = VERSION | {
    "files": [
        {
            "path": "config.json",
            "size": 718,
            "sha256": "1ac1218cbaa9ec69512607619b1f629738c0223bff4035e8af223cef36f9dfbb",
            "format": "json",
        },
        {
            "path": "model.safetensors",
            "size": 13_399_493,
            "sha256": "7d08538860cb9392fd96df004bb918a14cd2fe5d5e6663f99d930c5655be83fe",
            "format": "safetensors",
        },
    ],
    "config": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256},
    "facts": {
        "format": "safetensors",
        "tensors": 39,
        "weights": [{"dtype": "F32", "elements": 3_345_408, "bytes": 13_381_632}],
        "layers": 4,
        "hidden_size": 256,
        "attention_heads": 8,
        "kv_heads": 4,
        "head_dim": 32,
        "vocabulary": 2048,
        "rope": {"theta": 500_000.0, "scaling": "", "factor": None, "original_context_length": None},
        "quantization": None,
        "memory": {
            "weights_bytes": 13_381_632,
            "kv_cache_bytes_per_1k_tokens": 4_096_000,
            "kv_cache_dtype": "F32",
        },
        "unknown": [],
    },
    "scan": {
        "verdict": "passed",
        "formats": {
            "json": {"files": 1, "bytes": 718},
            "safetensors": {"files": 1, "bytes": 13_399_493},
        },
        "refusals": [],
        "warnings": [
            {"kind": "secret", "path": "README.md", "line": 31, "reason": "It seems to hold a key of AWS."}
        ],
        "code": [
            {"path": "modeling_tiny.py", "reason": "Python code, which loaders run with trust_remote_code."}
        ],
        "pickles": [
            {
                "path": "vocoder.pt",
                "findings": [{"name": "numpy.random._pickle.__randomstate_ctor", "level": "suspicious"}],
                "fault": "",
            }
        ],
        "skipped": ["optimizer.bin"],
        "notes": [],
    },
    "lineage": {
        "parent": "tiny-llama:v1",
        "base_model": "hf://acme/tiny-llama-base@main",
        "job": "https://ci.example.org/jobs/8",
        "data": ["hf://datasets/acme/questions", "s3://corpora/answers-2026-10"],
    },
    "history": [
        {
            "at": "2026-11-20T08:30:00Z",
            "from_state": "",
            "to_state": "importing",
            "by": "ada",
            "reason": "Trained twice as long.",
        },
        {
            "at": "2026-11-20T08:30:02Z",
            "from_state": "importing",
            "to_state": "ready",
            "by": "importer",
            "reason": "",
        },
    ],
}


TAGGING = {"add": ["evaluated"], "remove": ["candidate"], "reason": "The evaluation is through."}


ALIAS = {
    "name": "production",
    "model": "tiny-llama",
    "version": "v2",
    "digest": DIGEST,
    "moved_at": "2026-11-20T09:10:00Z",
    "moved_by": "bo",
    "reason": "Better on the evaluation.",
}


ALIAS_PUT = {"version": "v2", "reason": "Better on the evaluation."}


ALIAS_MOVE = {
    "alias": "production",
    "at": "2026-11-20T09:10:00Z",
    "from_version": "v1",
    "to_version": "v2",
    "to_digest": "0076dda79f15c1e4b1d6f2c8a9e05b3d7c4412f8e6a09b5d3c1f7e2a8b4d6c90",
    "by": "slipway",
    "reason": "Promoted on chat, asked for by ada, approved by bo: longer training",
    "release_id": 12,
}


RETENTION = {
    "model": "tiny-llama",
    "keep_last": 3,
    "keep_days": 30,
    "daily": True,
    "due_at": "2026-11-22T09:00:00Z",
    "applying": False,
    "stuck": "",
    "changed_at": "2026-11-20T09:00:00Z",
    "changed_by": "ada",
    "last_run": {"at": "2026-11-21T09:00:00Z", "deleted_versions": 2, "deleted_bytes": 26_800_422},
}


RETENTION_PUT = {"keep_last": 3, "keep_days": 30, "reason": "Nightly builds fill the disk."}


RETENTION_PREVIEW = {
    "preview": "0f3a9c4e8b21d7f5",
    "going_bytes": 13_400_211,
    "freed_bytes": 13_399_493,
    "versions": [
        {
            "version": "v2",
            "bytes": 13_400_211,
            "ready_at": "2026-11-20T08:30:02Z",
            "goes": False,
            "reasons": ["the newest", "ready for less than 30 days", "alias staging"],
        },
        {
            "version": "v1",
            "bytes": 13_400_211,
            "ready_at": "2026-09-01T08:30:02Z",
            "goes": True,
            "reasons": [
                "older than the newest version",
                "ready for 30 days or more",
                "no alias, service or release needs it",
            ],
        },
    ],
}


RETENTION_APPLY = {"preview": "0f3a9c4e8b21d7f5", "daily": True, "reason": "Seen with bo."}


CARD = {
    "text": "---\nlicense: apache-2.0\nlanguage: [en, fr]\n---\n# Tiny Llama\nTrained for a day.\n",
    "is_cut": False,
    "facts": {"license": "apache-2.0", "language": "en, fr"},
}
