"""What the driver's own tool reads of the GPUs of this machine."""

import asyncio
import contextlib
import csv
import shutil
from pathlib import Path

from serving.protocol import HOST_DEVICE, MAX_DEVICES_PER_REPORT, Device

READ_WITHIN_SECONDS = 5.0
MEMINFO = Path("/proc/meminfo")
MIB = 2**20
READINGS: dict[str, tuple[str, float]] = {
    "utilization.gpu": ("utilization_ratio", 0.01),
    "memory.used": ("memory_used_bytes", MIB),
    "memory.total": ("memory_total_bytes", MIB),
    "temperature.gpu": ("temperature_celsius", 1),
    "power.draw": ("power_watts", 1),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected_errors", 1),
}
"""By the tool's name of a field: ours, and by what its number is multiplied."""


def read_host(meminfo: Path = MEMINFO) -> tuple[Device, ...]:
    """Return the machine itself as a device, with the share of its memory in use; none where that cannot be
    read."""
    try:
        lines = meminfo.read_text().splitlines()
        sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        used = 1 - sizes["MemAvailable"] / sizes["MemTotal"]
    except (OSError, ValueError, LookupError, ZeroDivisionError):
        return ()
    return (Device(uuid=HOST_DEVICE, readings={"memory_used_ratio": round(used, 3)}),)


async def read_devices() -> tuple[Device, ...]:
    """Read the GPUs; none where there is no such tool, or where it does not answer."""
    return parse_devices(await ask_driver(f"--query-gpu=uuid,{','.join(READINGS)}"))


async def ask_driver(query: str) -> str:
    """Return the rows of the driver's own tool; empty where there is none, or where it does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    try:
        process = await asyncio.create_subprocess_exec(
            *(tool, query, "--format=csv,noheader,nounits"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        listed, _ = await asyncio.wait_for(process.communicate(), READ_WITHIN_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # A driver that hangs keeps it where no signal comes: it is not waited for for ever.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), READ_WITHIN_SECONDS)
        return ""
    return listed.decode(errors="replace") if process.returncode == 0 else ""


def parse_devices(listed: str) -> tuple[Device, ...]:
    """A line per GPU; what the driver cannot tell, `[N/A]`, is left out."""
    found = []
    for row in csv.reader(listed.splitlines(), skipinitialspace=True):
        if len(row) != len(READINGS) + 1:
            continue
        readings = {}
        for text, (name, unit) in zip(row[1:], READINGS.values(), strict=True):
            with contextlib.suppress(ValueError):
                readings[name] = round(float(text) * unit, 4)
        found.append(Device(uuid=row[0], readings=readings))
    return tuple(found[:MAX_DEVICES_PER_REPORT])
