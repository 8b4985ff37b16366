"""Images as tests need them."""

import hashlib
from typing import Any

from accounts.models import Team
from images import services
from images.models import RuntimeImage
from tests.cast import SYSTEM


def digest_of(name: str) -> str:
    return f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"


def reference(name: str) -> str:
    return f"registry.example.org/serving/{name.rstrip('.-')}@{digest_of(name)}"


def image(name: str = "vllm-10", team: Team | None = None, **fields: Any) -> RuntimeImage:
    """Create an image of vLLM 0.10.0 with CUDA 12.4 for A100 and H100, for all teams, unless told
    otherwise.
    """
    told = {
        "engine": "vllm",
        "engine_version": "0.10.0",
        "reference": reference(name),
        "cuda_version": "12.4",
        "code": ["8.0", "9.0"],
        "formats": ["safetensors"],
    }
    return services.add_image(actor=SYSTEM, team=team, name=name, **(told | fields))
