"""What dcgm-exporter says: its metrics by DCGM's field ids, whatever a release of it calls them.

Field ids: NVIDIA DCGM API reference. `DCGM_FI_DEV_XID_ERRORS` is the last Xid, not a count: only its change
is one, and what it shows at the first look may be of any age.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu_health.signals.levels import MACHINE, Levels, ReadingDevice
from gpu_health.signals.reading import GpuReading, ReadingKind, ReadingSource, bus_id
from gpu_health.signals.xid import RECOVERY_ACTION

MAX_LINES = 100_000
FIELDS: Mapping[str, int] = {
    "DCGM_FI_DEV_XID_ERRORS": 230,
    "DCGM_FI_DEV_INFOROM_CONFIG_VALID": 84,
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 310,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 311,
    "DCGM_FI_DEV_ECC_DBE_VOL_DEV": 319,
    "DCGM_FI_DEV_THRESHOLD_SRM": 346,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 393,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 395,
    "DCGM_FI_DEV_ROW_REMAP_PENDING": 396,
    "DCGM_FI_DEV_RETIRED_DBE": 391,
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": 409,
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": 419,
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": 429,
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": 439,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 202,
    "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH": 236,
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": 238,
    "DCGM_FI_DEV_FABRIC_MANAGER_STATUS": 170,
    "DCGM_FI_DEV_FABRIC_HEALTH_MASK": 174,
    "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION": 1523,
}
LEVELS: Mapping[int, str] = {346: "ecc.sram_threshold", 395: "row_remap.failed", 396: "row_remap.pending"}
COUNTERS: Mapping[int, str] = {310: "ecc.single_bit", 311: "ecc.double_bit", 319: "ecc.double_bit"}
VALUES: Mapping[int, str] = {393: "row_remap.uncorrectable", 391: "pages.retired"}
PER_SECOND: Mapping[int, str] = {409: "nvlink.crc", 419: "nvlink.crc"}
RISES: Mapping[int, str] = {429: "nvlink.replay", 439: "nvlink.replay"}
FABRIC_MANAGER_FAILED = 4
"""Of 0 not supported, 1 not started, 2 in progress, 3 success, 4 failure, 5 unrecognised, 6 NVML too old."""

_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]{0,120})\{([^\n]{0,4000})\} (\S{1,40})")
_LABEL = re.compile(r'([A-Za-z_]\w{0,60})="((?:[^"\\]|\\.){0,300})"')


@dataclass(frozen=True, slots=True)
class DcgmSample:
    field_id: int
    device: ReadingDevice
    value: float


class DcgmReader:
    """Hand it what the exporter answered; `unreachable` where it did not. Never raises."""

    def __init__(self, *, session: str, node: str = "", fields: Mapping[str, int] = FIELDS) -> None:
        self._fields = fields
        self._levels = Levels(ReadingSource.DCGM, session, node)

    def unreachable(self, why: str, at: float) -> list[GpuReading]:
        """A connection that fails is the detector's, and no GPU's."""
        return self._levels.level("detector.dcgm", MACHINE, True, at, raw=why, kind=ReadingKind.DETECTOR)

    def read(self, text: str, at: float) -> list[GpuReading]:
        """`text` as Prometheus would read it."""
        found = self._levels.level("detector.dcgm", MACHINE, False, at)
        widths: dict[ReadingDevice, dict[int, float]] = {}
        devices: dict[ReadingDevice, None] = {}
        for sample in samples(text, self._fields):
            devices[sample.device] = None
            if sample.field_id in (236, 238):
                widths.setdefault(sample.device, {})[sample.field_id] = sample.value
            else:
                found += self._sample(sample, at)
        for device, width in widths.items():
            if len(width) == 2:
                narrow = width[238] < width[236]
                found += self._levels.level("pcie.width", device, narrow, at, value=width[238])
        for device in devices if devices else ():
            found += self._levels.all_told(device, at)
        return found + (self._levels.all_told(MACHINE, at) if devices else [])

    def _sample(self, sample: DcgmSample, at: float) -> list[GpuReading]:
        levels, number, device, value = self._levels, sample.field_id, sample.device, sample.value
        more = {"field": number}
        if number in LEVELS:
            return levels.level(LEVELS[number], device, value > 0, at, value=value, more=more)
        if number == 84:
            return levels.level("inforom.corrupt", device, value == 0, at, more=more)
        if number == 170:
            return levels.level("fabric_manager.down", device, value == FABRIC_MANAGER_FAILED, at, more=more)
        if number == 174:
            faulty = any(int(value) >> bit & 0b11 == 1 for bit in range(0, 32, 2))
            return levels.level("fabric_health.fault", device, faulty, at, value=value, more=more)
        if number in (230, 1523):
            return self._last_word(sample, at)
        if number in VALUES:
            before = levels.changed(f"field {number}", device, value, at)
            fault = VALUES[number]
            return [] if before is None else [levels.reading(fault, device, at, value=value, more=more)]
        rise = levels.rise(f"field {number}", device, value, at)
        if rise is None:
            return []
        if number in COUNTERS:
            return [levels.reading(COUNTERS[number], device, at, value=value, more=more)]
        if number in PER_SECOND:
            return [levels.reading(PER_SECOND[number], device, at, value=rise[0] / rise[1], more=more)]
        if number in RISES:
            return [levels.reading(RISES[number], device, at, value=rise[0], more=more)]
        return [levels.reading("pcie.replay_rate", device, at, value=60 * rise[0] / rise[1], more=more)]

    def _last_word(self, sample: DcgmSample, at: float) -> list[GpuReading]:
        number, device, value = sample.field_id, sample.device, sample.value
        before = self._levels.changed(f"field {number}", device, value, at)
        if before is None or (number == 230 and not 0 < value < 10_000):
            return []
        if number == 230:
            return [self._levels.reading(f"xid.{int(value)}", device, at, more={"field": number})]
        more = {"action": int(value), "before": int(before)}
        return [self._levels.reading(RECOVERY_ACTION, device, at, value=value, more=more)]


def samples(text: str, fields: Mapping[str, int] = FIELDS) -> Iterator[DcgmSample]:
    """Yield the samples of known fields; lines that are no sample are passed over."""
    for line in text.splitlines()[:MAX_LINES]:
        found = _LINE.match(line)
        if found is None or (number := fields.get(found[1])) is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        if value != value or abs(value) > 1e18:
            continue
        labels = dict(_LABEL.findall(found[2]))
        uuid = labels.get("UUID") or labels.get("uuid") or labels.get("gpu_uuid", "")
        yield DcgmSample(number, ReadingDevice(bus_id(labels.get("pci_bus_id", "")), uuid[:80]), value)
