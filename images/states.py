"""What images are of, and what can be said about them."""

from django.db.models import TextChoices

from serving.protocol import ENGINES as SERVED_ENGINES

ENGINES = (
    *SERVED_ENGINES,
    "sglang", "tgi", "tensorrt-llm", "triton", "llama.cpp", "onnxruntime", "diffusers", "comfyui",
)  # fmt: skip


class Acceleration(TextChoices):
    """How a cluster gets the image onto a machine sooner than by pulling all of it first."""

    NONE = "", "None: it is pulled as a whole"
    LAZY_STARGZ = "lazy-stargz", "Lazy loading with stargz snapshotter"
    LAZY_NYDUS = "lazy-nydus", "Lazy loading with Nydus"
    LAZY_SOCI = "lazy-soci", "Lazy loading with SOCI"
    P2P_DRAGONFLY = "p2p-dragonfly", "From machine to machine with Dragonfly"
    P2P_SPEGEL = "p2p-spegel", "From machine to machine with Spegel"
    PREPULL = "prepull", "Pulled onto every machine beforehand"
    NODE_IMAGE = "node-image", "Part of the machines' own disk image"


class Outcome(TextChoices):
    """What came of running an image."""

    WORKS = "works", "Works"
    FAILS = "fails", "Fails"


class ImageState(TextChoices):
    CURRENT = "current", "Current"
    DEPRECATED = "deprecated", "Deprecated"
