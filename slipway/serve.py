"""A fast model service in ten lines: docs/SERVING.md. Needs no Django."""

from serving.runtime import diffusion, llm
from serving.runtime.app import App, Indicator
from serving.runtime.context import deadline
from serving.runtime.errors import AppError, Cancelled, Problem
from serving.runtime.gpu_model import Files, GpuModel, ModelHandle, batched, get, in_process
from serving.runtime.handler_request import Request, Response
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
