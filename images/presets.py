"""Images that makers of engines publish: where, how their tags are made, and what is known of all of them."""

import re
from dataclasses import dataclass

from images import versions
from serving.engines.registry import ENGINES

Variant = str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePreset:
    name: str
    engine: str
    repository: str
    """Path below the registry that one names."""
    tags: str
    """A pattern of whole tags with the group `version`; `cuda` where the tag says it, as `128`. Tags that it
    does not match (latest, nightly, release candidates) are left alone."""
    runs_on_cpu: bool = False
    cuda_variable: str = "CUDA_VERSION"
    """Of the image's environment: NVIDIA's base images set this one."""

    @property
    def formats(self) -> tuple[str, ...]:
        return ENGINES[self.engine].formats

    def match(self, tag: str) -> re.Match[str] | None:
        return re.fullmatch(self.tags, tag)

    def newest(self, tags: list[str]) -> list[str]:
        """The newest of each CUDA that tags tell apart."""
        found: dict[Variant, tuple[tuple[int, ...], str]] = {}
        for tag in tags:
            if read := self.match(tag):
                rank = (versions.numbers(read["version"]), tag)
                variant = read.groupdict().get("cuda") or ""
                found[variant] = max(found.get(variant, rank), rank)
        newest = max((rank for rank, _tag in found.values()), default=())
        # A CUDA that the newest version is not built for any more is not offered.
        return sorted(tag for rank, tag in found.values() if rank == newest)


_SEMVER = r"v?(?P<version>\d+\.\d+\.\d+(?:\.post\d+)?)"
PRESETS = {
    preset.name: preset
    for preset in (
        # hub.docker.com/r/vllm/vllm-openai
        ImagePreset(
            name="vllm",
            engine="vllm",
            repository="vllm/vllm-openai",
            tags=_SEMVER + r"(?:-cu(?P<cuda>\d{3}))?",
        ),
        # hub.docker.com/r/lmsysorg/sglang
        ImagePreset(
            name="sglang",
            engine="sglang",
            repository="lmsysorg/sglang",
            tags=_SEMVER + r"(?:-cu(?P<cuda>\d{3}))?",
        ),
        # catalog.ngc.nvidia.com/orgs/nvidia/teams/tensorrt-llm
        ImagePreset(
            name="tensorrt-llm",
            engine="tensorrt-llm",
            repository="nvidia/tensorrt-llm/release",
            tags=_SEMVER,
        ),
        # catalog.ngc.nvidia.com/orgs/nvidia/containers/tritonserver
        ImagePreset(
            name="triton",
            engine="triton",
            repository="nvidia/tritonserver",
            tags=r"(?P<version>\d{2}\.\d{2})-py3",
            runs_on_cpu=True,
        ),
        # github.com/ggml-org/llama.cpp, docs/docker.md
        ImagePreset(
            name="llama.cpp",
            engine="llama.cpp",
            repository="ggml-org/llama.cpp",
            tags=r"server-cuda-b(?P<version>\d+)",
        ),
        ImagePreset(
            name="llama.cpp-cpu",
            engine="llama.cpp",
            repository="ggml-org/llama.cpp",
            tags=r"server-b(?P<version>\d+)",
            runs_on_cpu=True,
        ),
        # deploy/worker/Containerfile
        ImagePreset(
            name="worker",
            engine="transformers",
            repository="slipway/worker",
            tags=_SEMVER,
            runs_on_cpu=True,
        ),
    )
}
