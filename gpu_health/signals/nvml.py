"""What NVML says of the GPUs of this machine. `library` is the module `pynvml` of nvidia-ml-py.

Names and numbers: NVIDIA NVML API reference. What a GPU or an old driver does not support is left out.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from gpu_health.signals.levels import MACHINE, Levels, ReadingDevice
from gpu_health.signals.reading import LEVEL, GpuReading, ReadingKind, ReadingSource, bus_id
from gpu_health.signals.xid import RECOVERY_ACTION, RECOVERY_ACTIONS

FIELD_RECOVERY_ACTION = 230
FIELD_MARGIN_LIMIT = 194
VALUES = dict(enumerate(("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")))
"""Members of nvmlValue_t by nvmlValueType_t."""
NOT_SUPPORTED = (1, 2, 3, 6, 13, 25)
"""Uninitialised fields, arguments, functions and symbols that an older driver or another GPU lacks."""
GPU_IS_LOST, RESET_REQUIRED, LIBRARY_MISMATCH = 15, 16, 18
UNCORRECTED, CORRECTED, VOLATILE = 1, 0, 0
LINKS = 18
REASONS = {
    0x04: "power.software_cap",
    0x08: "clocks.hardware_slowdown",
    0x40: "clocks.thermal_slowdown",
    0x80: "power.brake",
}


class NvmlReader:
    """`read` once a minute. A library that cannot be asked is a failing detector, never a fault of a GPU."""

    def __init__(self, library: Any, *, session: str, node: str = "", expected_gpus: int = 0) -> None:
        self._nvml = library
        self._expected = expected_gpus
        self._levels = Levels(ReadingSource.NVML, session, node)
        self._driver = ""
        self._count: int | None = None
        self._asked: set[ReadingDevice] = set()
        self._devices: dict[int, ReadingDevice] = {}

    def read(self, at: float) -> list[GpuReading]:
        """`at`: seconds since the epoch. Never raises what the library raises."""
        try:
            self._nvml.nvmlInit()
        except Exception as error:
            return self._failed(error, at)
        try:
            return list(self._all(at))
        except Exception as error:
            return self._failed(error, at)
        finally:
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()

    def _failed(self, error: Exception, at: float) -> list[GpuReading]:
        mismatch = _code(error) == LIBRARY_MISMATCH
        found = self._levels.level("driver.mismatch", MACHINE, mismatch, at, raw=str(error))
        return found + self._levels.level(
            "detector.nvml",
            MACHINE,
            not mismatch,
            at,
            raw=str(error) or type(error).__name__,
            kind=ReadingKind.DETECTOR,
        )

    def _all(self, at: float) -> Iterator[GpuReading]:
        level, nvml = self._levels.level, self._nvml
        version = _text(nvml.nvmlSystemGetDriverVersion())
        if version != self._driver:
            self._driver = version
            yield self._levels.reading(
                "driver.version", MACHINE, at, kind=ReadingKind.FACT, more={"version": version}
            )
        count = int(nvml.nvmlDeviceGetCount())
        yield from level("driver.mismatch", MACHINE, False, at)
        yield from level("detector.nvml", MACHINE, False, at)
        if count != self._count:
            self._count = count
            yield self._levels.reading("gpu.count", MACHINE, at, kind=ReadingKind.FACT, value=float(count))
        missing = count < self._expected
        words = f"{count} of {self._expected} GPUs"
        yield from level("gpu.count_mismatch", MACHINE, missing, at, raw=words, value=float(count))
        for index in range(count):
            yield from self._gpu(index, at)
        yield from self._levels.all_told(MACHINE, at)

    def _gpu(self, index: int, at: float) -> Iterator[GpuReading]:
        # A GPU that is lost does not tell its name any more.
        nameless = ReadingDevice(part=f"index {index}")
        device = self._devices.get(index, nameless)
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            pci = self._nvml.nvmlDeviceGetPciInfo(handle)
            device = ReadingDevice(bus_id(_text(pci.busId)), _text(self._nvml.nvmlDeviceGetUUID(handle)))
            self._devices[index] = device
            yield from self._health(handle, device, at)
        except Exception as error:
            code = _code(error)
            if code is None:
                raise
            for fault, wanted in (("gpu.lost", GPU_IS_LOST), ("gpu.reset_required", RESET_REQUIRED)):
                yield from self._levels.level(fault, device, code == wanted, at, raw=str(error))
        else:
            for fault in ("gpu.lost", "gpu.reset_required"):
                yield from self._levels.level(fault, device, False, at)
                yield from self._levels.level(fault, nameless, False, at)
            yield from self._levels.all_told(device, at)

    def _health(self, handle: Any, device: ReadingDevice, at: float) -> Iterator[GpuReading]:
        yield from self._memory(handle, device, at)
        yield from self._clocks(handle, device, at)
        yield from self._links(handle, device, at)
        action = self._field(handle, FIELD_RECOVERY_ACTION)
        if action is not None:
            before = self._levels.changed(RECOVERY_ACTION, device, action, at)
            if before is not None or (action and device not in self._asked):
                yield self._levels.reading(
                    RECOVERY_ACTION, device, at, value=action, more={"action": int(action), LEVEL: "yes"},
                    raw=RECOVERY_ACTIONS.get(int(action), "unknown"),
                )  # fmt: skip
            self._asked.add(device)
        off = self._ask("nvmlDeviceGetPersistenceMode", handle)
        if off is not None:
            yield from self._levels.level("persistence.off", device, int(off) == 0, at)

    def _memory(self, handle: Any, device: ReadingDevice, at: float) -> Iterator[GpuReading]:
        levels = self._levels
        for kind, fault in ((UNCORRECTED, "ecc.double_bit"), (CORRECTED, "ecc.single_bit")):
            total = self._ask("nvmlDeviceGetTotalEccErrors", handle, kind, VOLATILE)
            if total is not None and (rise := levels.rise(fault, device, float(total), at)):
                yield levels.reading(fault, device, at, value=float(total), more={"rise": int(rise[0])})
        sram = self._sram(handle)
        if sram is not None:
            yield from levels.level("ecc.sram_threshold", device, bool(sram.bThresholdExceeded), at)
        rows = self._ask("nvmlDeviceGetRemappedRows", handle)
        if rows is not None:
            _correctable, uncorrectable, pending, failed = rows
            yield from levels.level("row_remap.pending", device, bool(pending), at)
            yield from levels.level("row_remap.failed", device, bool(failed), at)
            if levels.changed("row_remap.uncorrectable", device, float(uncorrectable), at) is not None:
                yield levels.reading("row_remap.uncorrectable", device, at, value=float(uncorrectable))

    def _clocks(self, handle: Any, device: ReadingDevice, at: float) -> Iterator[GpuReading]:
        """A reading at each look while clocks are held back: how often is what rules count."""
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        for bit, fault in REASONS.items():
            if reasons is not None and int(reasons) & bit:
                yield self._levels.reading(fault, device, at, raw=f"reasons 0x{int(reasons):x}")
        margin, limit = self._ask("nvmlDeviceGetMarginTemperature", handle), None
        if margin is not None:
            limit = self._field(handle, FIELD_MARGIN_LIMIT) or 0.0
            yield from self._levels.level(
                "thermal.margin", device, float(margin) < limit, at, value=float(margin)
            )

    def _links(self, handle: Any, device: ReadingDevice, at: float) -> Iterator[GpuReading]:
        levels = self._levels
        width = self._ask("nvmlDeviceGetCurrPcieLinkWidth", handle)
        widest = self._ask("nvmlDeviceGetMaxPcieLinkWidth", handle)
        if width is not None and widest is not None:
            told = f"x{width} of x{widest}"
            yield from levels.level("pcie.width", device, width < widest, at, value=float(width), raw=told)
        if self._ask("nvmlDeviceGetPerformanceState", handle) == 0:
            # A GPU at rest lowers the generation by itself.
            now = self._ask("nvmlDeviceGetCurrPcieLinkGeneration", handle)
            best = self._ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)
            if now is not None and best is not None:
                yield from levels.level("pcie.generation", device, now < best, at, value=float(now))
        replays = self._ask("nvmlDeviceGetPcieReplayCounter", handle)
        if replays is not None and (rise := levels.rise("pcie.replays", device, float(replays), at)):
            yield levels.reading("pcie.replay_rate", device, at, value=60 * rise[0] / rise[1])
        states = [self._ask("nvmlDeviceGetNvLinkState", handle, link) for link in range(LINKS)]
        if any(states):
            for link, state in enumerate(states):
                if state is not None:
                    part = ReadingDevice(device.bus_id, device.uuid, f"link {link}")
                    yield from levels.level("nvlink.down", part, not state, at, more={"link": link})

    def _sram(self, handle: Any) -> Any:
        """Return the structure that the driver fills in; None: the library has none for it."""
        structure = getattr(self._nvml, "c_nvmlEccSramErrorStatus_v1_t", None)
        if structure is None:
            return None
        status = structure()
        asked = self._ask("nvmlDeviceGetSramEccErrorStatus", handle, ctypes.byref(status))
        return None if asked is None else status

    def _field(self, handle: Any, number: int) -> float | None:
        values = self._ask("nvmlDeviceGetFieldValues", handle, [number])
        if not values or int(values[0].nvmlReturn) != 0:
            return None
        member = VALUES.get(int(values[0].valueType))
        return None if member is None else float(getattr(values[0].value, member))

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Ask the library; None: this GPU, driver or library cannot tell."""
        function: Callable[..., Any] | None = getattr(self._nvml, name, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except Exception as error:
            if _code(error) in NOT_SUPPORTED:
                return None
            raise


def _code(error: Exception) -> int | None:
    """Return the code of an NVML error; None: it is none."""
    value = getattr(error, "value", None)
    return value if isinstance(value, int) else None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
