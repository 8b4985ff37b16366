"""The device that checks run on: a GPU, or the processor of a machine that has none, by the same code."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from serving.checks.report import CheckOutcome, DeviceCheck

NO_GPU = (
    "No GPU answers on this machine: no driver, no device of /dev/nvidia* in this container, or a torch "
    "without CUDA. Look at nvidia-smi; --device cpu tries the same checks on the processor."
)


@dataclass(frozen=True, slots=True)
class DeviceUnderTest:
    """`index` as torch counts; `model` as the driver names it; `uuid` and `bus_id` blank on a processor."""

    kind: str
    index: int
    model: str
    uuid: str = ""
    bus_id: str = ""

    @property
    def device(self) -> torch.device:
        return torch.device(self.kind, self.index) if self.is_gpu else torch.device("cpu")

    @property
    def is_gpu(self) -> bool:
        return self.kind == "cuda"

    def check(
        self, name: str, outcome: CheckOutcome, words: str, *, measured: float | None = None,
        expected: float | None = None, unit: str = "",
    ) -> DeviceCheck:  # fmt: skip
        """Return the result of one check of it."""
        return DeviceCheck(
            name=name,
            outcome=outcome,
            words=words,
            gpu_uuid=self.uuid,
            gpu_bus_id=self.bus_id,
            measured=measured,
            expected=expected,
            unit=unit,
        )

    def finish(self) -> None:
        """Wait until everything that was ordered is done."""
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def free_bytes(self) -> int:
        """Return the free bytes of its memory; on a processor, what a trial may take."""
        if not self.is_gpu:
            return 64 * 2**20
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(self.device)[0]


def processor() -> DeviceUnderTest:
    return DeviceUnderTest("cpu", 0, "processor")


def gpus() -> list[DeviceUnderTest]:
    """Return the GPUs of this process (CUDA_VISIBLE_DEVICES counts). None: see NO_GPU."""
    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        told: Any = torch.cuda.get_device_properties(index)
        bus = f"{told.pci_domain_id:04x}:{told.pci_bus_id:02x}:{told.pci_device_id:02x}"
        found.append(DeviceUnderTest("cuda", index, told.name, f"GPU-{told.uuid}", bus))
    return found


class Nvml:
    """The driver's account of one GPU. Whatever it cannot tell is None."""

    def __init__(self, library: Any, uuid: str) -> None:
        self._nvml = library
        self._handle = library.nvmlDeviceGetHandleByUUID(uuid)

    def power_watts(self) -> float | None:
        value = self._ask("nvmlDeviceGetPowerUsage")
        return None if value is None else value / 1000

    def sm_clock_mhz(self) -> float | None:
        clock: float | None = self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM)
        return clock

    def temperature_celsius(self) -> float | None:
        degrees: float | None = self._ask("nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU)
        return degrees

    def clock_reasons(self) -> int:
        """Bits that say why the clock is not higher (nvmlClocksEventReasons)."""
        return int(self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0)

    def others(self, pid: int) -> list[int]:
        """Processes that compute on it, besides one."""
        running = self._ask("nvmlDeviceGetComputeRunningProcesses") or []
        return [one.pid for one in running if one.pid != pid]

    def _ask(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except Exception:
            return None


def nvml_of(target: DeviceUnderTest) -> Nvml | None:
    """Return its NVML; None where the package nvidia-ml-py, or the driver's library, is missing."""
    if not target.is_gpu:
        return None
    try:
        library = import_module("pynvml")
        library.nvmlInit()
        return Nvml(library, target.uuid)
    except Exception:
        return None
