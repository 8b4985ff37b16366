"""A fast model service in ten lines: docs/SERVING.md. Needs no Django."""

from serving.runtime import diffusion, llm
from serving.runtime.api import (
    App,
    AppError,
    Cancelled,
    Files,
    GpuModel,
    Indicator,
    ModelHandle,
    Problem,
    Request,
    Response,
    batched,
    deadline,
    get,
    in_process,
)
from serving.runtime.shapes import pad, padded_shape, shape

__all__ = [
    "App",
    "AppError",
    "Cancelled",
    "Files",
    "GpuModel",
    "Indicator",
    "ModelHandle",
    "Problem",
    "Request",
    "Response",
    "batched",
    "deadline",
    "diffusion",
    "get",
    "in_process",
    "llm",
    "pad",
    "padded_shape",
    "shape",
]
