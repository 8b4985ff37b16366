"""The documents that the schema shows for evaluations, and for two versions side by side."""

from common.api.samples import DIGEST

FIGURE = {
    "name": "accuracy",
    "dataset": "mmlu",
    "task": "",
    "value": 0.63,
    "unit": "",
    "higher_is_better": True,
    "origin": "recorded",
    "by": "ci",
    "at": "2026-11-20T10:00:00Z",
    "link": "https://ci.example.org/jobs/9",
}
EVALUATIONS = {
    "version": "tiny-llama:v2",
    "figures": [
        FIGURE,
        {
            "name": "perplexity",
            "dataset": "wikitext",
            "task": "text-generation",
            "value": 11.4,
            "unit": "",
            "higher_is_better": None,
            "origin": "card",
            "by": "",
            "at": None,
            "link": "",
        },
    ],
}
EVALUATIONS_PUT = {
    "figures": [
        {
            "name": "accuracy",
            "dataset": "mmlu",
            "value": 0.63,
            "higher_is_better": True,
            "link": "https://ci.example.org/jobs/9",
        }
    ],
    "reason": "Nightly evaluation.",
}
EVALUATION_ENTRY = {
    "name": "accuracy",
    "dataset": "mmlu",
    "value": 0.63,
    "unit": "",
    "higher_is_better": True,
    "link": "https://ci.example.org/jobs/9",
    "at": "2026-11-20T10:00:00Z",
    "by": "ci",
}
TOKENIZER = {
    "kind": "BPE",
    "vocabulary": 2048,
    "special_tokens": ["<s>", "</s>"],
    "roles": {"bos_token": "<s>", "eos_token": "</s>"},
    "chat_template": "",
}
COMPARISON = {
    "before": "tiny-llama:v1",
    "after": "tiny-llama:v2",
    "files": [
        {"path": "config.json", "change": "changed", "size_before": 716, "size_after": 718},
        {
            "path": "model.safetensors",
            "change": "changed",
            "size_before": 13_399_493,
            "size_after": 13_399_493,
        },
    ],
    "bytes": {"same": 0, "changed": 13_400_211, "added": 0, "removed": 0},
    "config": [{"key": "rope_theta", "change": "changed", "before": 10_000, "after": 500_000}],
    "facts": [{"key": "rope.theta", "change": "changed", "before": 10_000.0, "after": 500_000.0}],
    "tokenizer": {
        "change": "changed",
        "before": TOKENIZER,
        "after": TOKENIZER
        | {"vocabulary": 2049, "special_tokens": ["<s>", "</s>", "<|tool|>"], "chat_template": DIGEST},
        "special_added": ["<|tool|>"],
        "special_removed": [],
        "chat_template": "changed",
    },
    "card": {
        "change": "changed",
        "lines": ["@@ -1,2 +1,2 @@", " # Tiny Llama", "-Trained for a day.", "+Trained for two days."],
        "too_long": False,
    },
    "figures": [
        {
            "name": "accuracy",
            "dataset": "mmlu",
            "before": FIGURE | {"value": 0.61},
            "after": FIGURE,
            "difference": 0.02,
            "better": True,
        }
    ],
}
