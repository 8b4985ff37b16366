"""A library that nvidia-ml-py takes for libnvidia-ml: the same functions, ctypes arguments and return codes.

Above it runs all of nvidia-ml-py as it does above the driver. A copy of it has this library for its own, so
that the driver of the machine may be asked beside it. Names and numbers: NVIDIA NVML API reference.
"""

import ctypes
import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import SimpleNamespace
from typing import Any

from serving.drills.machine import DRIVER, Play, bus_of, uuid_of

COPY = "serving.drills.played_pynvml"
SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED = 0, 2, 3, 6, 15, 16
RECOVERY_ACTION, MARGIN_LIMIT = 230, 194
LINKS, WIDTH, GENERATION, MARGIN = 18, 16, 5, 40
ENABLED, P0, UNCORRECTED = 1, 0, 1
UNSIGNED, SIGNED = 1, 5
"""Of nvmlValueType_t."""
SLOWDOWN_MARGIN = -2
"""Degrees, as an H100 says."""


def played_module(play: Callable[[], Play | None]) -> Any:
    """A copy of the module `pynvml` that asks the played GPUs; None: nvidia-ml-py is not installed."""
    found = find_spec("pynvml")
    spec = spec_from_file_location(COPY, found.origin) if found and found.origin else None
    if spec is None or spec.loader is None:
        return None
    # It looks itself up by its name.
    module = sys.modules[COPY] = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.nvmlLib = library(play)  # type: ignore[attr-defined]
    return module


def library(play: Callable[[], Play | None]) -> Any:
    """`play` is asked at each call. What a healthy GPU says is said of all that is not played."""
    functions: dict[str, Callable[..., int]] = {}

    def exported(name: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
        def export(function: Callable[..., int]) -> Callable[..., int]:
            functions[name] = function
            return function

        return export

    def number(name: str, setting: str, healthy: int = 0) -> None:
        """A function of a GPU that gives one number."""

        def ask(handle: Any, *rest: Any) -> int:
            return of_gpu(handle, lambda now, gpu: put(rest[-1], now.of(gpu, setting, healthy)))

        functions[name] = ask

    def of_gpu(handle: Any, answer: Callable[[Play, int], object]) -> int:
        now, gpu = play(), (ctypes.cast(handle, ctypes.c_void_p).value or 0) - 1
        if now is None or not 0 <= gpu < now.gpus:
            return INVALID_ARGUMENT
        for setting, code in (("lost", GPU_IS_LOST), ("reset_required", RESET_REQUIRED)):
            if now.of(gpu, setting):
                return code
        answer(now, gpu)
        return SUCCESS

    @exported("nvmlInitWithFlags")
    def init(_flags: Any) -> int:
        return SUCCESS

    @exported("nvmlShutdown")
    def shutdown() -> int:
        return SUCCESS

    @exported("nvmlErrorString")
    def error_string(code: int) -> Any:
        words = {
            NOT_SUPPORTED: b"Not Supported",
            GPU_IS_LOST: b"GPU is lost",
            RESET_REQUIRED: b"Reset required",
        }
        return words.get(int(code), b"Error %d" % int(code))

    @exported("nvmlSystemGetDriverVersion")
    def driver_version(buffer: Any, _size: Any) -> int:
        buffer.value = DRIVER.encode()
        return SUCCESS

    @exported("nvmlDeviceGetCount_v2")
    def count(into: Any) -> int:
        now = play()
        gone = sum(now.of(gpu, "missing") for gpu in range(now.gpus)) if now else 0
        put(into, now.gpus - gone if now else 0)
        return SUCCESS

    @exported("nvmlDeviceGetHandleByIndex_v2")
    def handle_by_index(index: Any, into: Any) -> int:
        now = play()
        if now is None or index.value >= now.gpus:
            return INVALID_ARGUMENT
        ctypes.memmove(into, ctypes.byref(ctypes.c_void_p(index.value + 1)), ctypes.sizeof(ctypes.c_void_p))
        return GPU_IS_LOST if now.of(index.value, "lost") else SUCCESS

    @exported("nvmlDeviceGetPciInfo_v3")
    def pci_info(handle: Any, into: Any) -> int:
        def answer(_now: Play, gpu: int) -> None:
            into._obj.busId = f"0000{bus_of(gpu).upper()}.0".encode()

        return of_gpu(handle, answer)

    @exported("nvmlDeviceGetUUID")
    def uuid(handle: Any, buffer: Any, _size: Any) -> int:
        def answer(_now: Play, gpu: int) -> None:
            buffer.value = uuid_of(gpu).encode()

        return of_gpu(handle, answer)

    @exported("nvmlDeviceGetTotalEccErrors")
    def ecc_errors(handle: Any, kind: Any, _counter: Any, into: Any) -> int:
        name = "ecc_double_bit" if kind.value == UNCORRECTED else "ecc_single_bit"
        return of_gpu(handle, lambda now, gpu: put(into, now.of(gpu, name)))

    @exported("nvmlDeviceGetSramEccErrorStatus")
    def sram_status(handle: Any, into: Any) -> int:
        def answer(now: Play, gpu: int) -> None:
            into._obj.bThresholdExceeded = now.of(gpu, "sram_threshold")

        return of_gpu(handle, answer)

    @exported("nvmlDeviceGetRemappedRows")
    def remapped_rows(handle: Any, *into: Any) -> int:
        names = ("row_remap_correctable", "row_remap_uncorrectable", "row_remap_pending", "row_remap_failed")

        def answer(now: Play, gpu: int) -> None:
            for name, one in zip(names, into, strict=True):
                put(one, now.of(gpu, name))

        return of_gpu(handle, answer)

    @exported("nvmlDeviceGetMarginTemperature")
    def margin(handle: Any, into: Any) -> int:
        def answer(now: Play, gpu: int) -> None:
            into._obj.marginTemperature = now.of(gpu, "margin", MARGIN)

        return of_gpu(handle, answer)

    @exported("nvmlDeviceGetNvLinkState")
    def link_state(handle: Any, link: int, into: Any) -> int:
        return of_gpu(handle, lambda now, gpu: put(into, int(link >= now.of(gpu, "links_down"))))

    @exported("nvmlDeviceGetFieldValues")
    def field_values(handle: Any, _count: Any, into: Any) -> int:
        def answer(now: Play, gpu: int) -> None:
            for one in into._obj:
                one.nvmlReturn = SUCCESS
                if one.fieldId == RECOVERY_ACTION:
                    one.valueType, one.value.uiVal = UNSIGNED, now.of(gpu, "recovery_action")
                elif one.fieldId == MARGIN_LIMIT:
                    one.valueType, one.value.siVal = SIGNED, SLOWDOWN_MARGIN
                else:
                    one.nvmlReturn = NOT_SUPPORTED

        return of_gpu(handle, answer)

    @exported("nvmlDeviceGetPersistenceMode")
    def persistence(handle: Any, into: Any) -> int:
        return of_gpu(handle, lambda now, gpu: put(into, int(not now.of(gpu, "persistence_off"))))

    number("nvmlDeviceGetCurrentClocksEventReasons", "clock_reasons")
    number("nvmlDeviceGetCurrPcieLinkWidth", "pcie_width", WIDTH)
    number("nvmlDeviceGetMaxPcieLinkWidth", "", WIDTH)
    number("nvmlDeviceGetCurrPcieLinkGeneration", "pcie_generation", GENERATION)
    number("nvmlDeviceGetMaxPcieLinkGeneration", "", GENERATION)
    number("nvmlDeviceGetPcieReplayCounter", "pcie_replays")
    number("nvmlDeviceGetPerformanceState", "", P0)
    return SimpleNamespace(**functions)


def put(into: Any, value: int) -> None:
    """Into what `byref` points to."""
    into._obj.value = value
