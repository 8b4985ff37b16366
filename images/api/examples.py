"""The documents that the schema shows for images."""

DIGEST = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
TRIAL = {
    "gpu": "NVIDIA H100 80GB HBM3",
    "driver": "550.54.15",
    "architecture": "LlamaForCausalLM",
    "outcome": "works",
    "words": "8 hours of load, nothing unusual",
    "at": "2026-11-20T08:30:00Z",
    "by": "ada",
}
NEW_TRIAL = {key: TRIAL[key] for key in ("gpu", "driver", "architecture", "outcome", "words")}
IMAGE = {
    "name": "vllm-0.10.2",
    "team": None,
    "engine": "vllm",
    "engine_version": "0.10.2",
    "reference": f"registry.example.org/serving/vllm@{DIGEST}",
    "cuda_version": "12.8",
    "least_driver": "",
    "code": ["8.0", "8.9", "9.0", "10.0+PTX"],
    "formats": ["safetensors"],
    "runs_on_cpu": False,
    "size_bytes": 9_800_000_000,
    "description": "As the vLLM project builds it.",
    "mirrors": {"eu-central": f"mirror.eu.example.org/serving/vllm@{DIGEST}"},
    "acceleration": "lazy-soci",
    "acceleration_why": "Nine tenths of its 10 GB are not read before the first answer.",
    "state": "current",
    "deprecated_at": None,
    "deprecated_by": "",
    "deprecated_why": "",
    "replaced_by": None,
    "pull_failures": [
        {
            "cluster": "west",
            "reason": "Its image cannot be pulled: not found",
            "since": "2026-11-20T09:00:00Z",
            "at": "2026-11-20T09:04:00Z",
        }
    ],
    "created_at": "2026-11-20T08:00:00Z",
    "created_by": "olga",
}
CLEARED_PULL_FAILURE = {"cluster": "west", "reason": "The registry has it again."}
IMAGE_DETAIL = IMAGE | {"trials": [TRIAL]}
NEW_IMAGE = {
    key: IMAGE[key]
    for key in (
        "name", "engine", "engine_version", "reference", "cuda_version", "code", "formats", "size_bytes",
        "description", "acceleration", "acceleration_why",
    )
} | {"team": "speech", "mirrors": {"eu-central": "mirror.eu.example.org/serving/vllm"}}  # fmt: skip
REFRESH = {"registry": "https://registry.example.org/mirror", "presets": ["vllm"], "add": True}
PROPOSAL = {
    "preset": "vllm",
    "outcome": "new",
    "tag": "v0.10.2",
    "name": "vllm-0.10.2",
    "reference": f"registry.example.org/mirror/vllm/vllm-openai@{DIGEST}",
    "engine": "vllm",
    "engine_version": "0.10.2",
    "cuda_version": "12.8",
    "code": ["8.0", "8.9", "9.0", "10.0+PTX"],
    "size_bytes": 9_800_000_000,
    "is_added": True,
    "problem": "",
}
IMAGE_CHANGE = {"mirrors": {"eu-central": "mirror.eu.example.org/serving/vllm"}}
DEPRECATION = {"reason": "CVE in its CUDA libraries", "replaced_by": "vllm-0.11.0"}
REINSTATEMENT = {"reason": "The report was about another image."}
FIT = {
    "engine": "vllm",
    "gpus": [{"name": "NVIDIA H100 80GB HBM3", "driver": "535.104.05", "compute_capability": "9.0"}],
    "model": {
        "format": "safetensors",
        "architecture": "LlamaForCausalLM",
        "dtype": "BF16",
        "quantization": "",
        "weights_bytes": 16_060_522_240,
    },
    "best": {
        "image": "vllm-0.9.1",
        "fits": True,
        "why": "vllm 0.9.1 with CUDA 12.4 is the only one that fits NVIDIA H100 80GB HBM3 "
        "(compute capability 9.0, driver 535.104.05).",
        "refusals": [],
        "doubts": [],
    },
    "others": [
        {
            "image": "vllm-0.10.2",
            "fits": False,
            "why": "needs driver 550 or newer; NVIDIA H100 80GB HBM3 has 535.104.05.",
            "refusals": [
                {
                    "fact": "driver",
                    "sentence": "needs driver 550 or newer; NVIDIA H100 80GB HBM3 has 535.104.05",
                }
            ],
            "doubts": [],
        }
    ],
}
