"""This machine: its name, its size, its GPUs, and which of its ports are free."""

import csv
import shutil
import socket
import subprocess

import psutil

from clusters.backends.base import ObservedGpu, ObservedNode

MIB = 2**20


def machine_name() -> str:
    return socket.gethostname()


def this_machine() -> ObservedNode:
    return ObservedNode(
        name=machine_name(),
        address="127.0.0.1",
        cpu_count=psutil.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        gpus=gpus(),
    )


def gpus() -> tuple[ObservedGpu, ...]:
    """The NVIDIA GPUs, as the driver's own tool lists them; none where it is missing or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, "--query-gpu=index,name,memory.total,driver_version", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(parse_gpus(listed))


def parse_gpus(listed: str) -> list[ObservedGpu]:
    """`index, name, MiB, driver` per line; a field that the driver cannot tell reads `[N/A]`."""
    found = []
    for row in csv.reader(listed.splitlines(), skipinitialspace=True):
        if len(row) == 4 and row[0].isdecimal():
            memory_bytes = int(row[2]) * MIB if row[2].isdecimal() else 0
            driver = "" if row[3].startswith("[") else row[3]
            found.append(
                ObservedGpu(index=int(row[0]), name=row[1], memory_bytes=memory_bytes, driver=driver)
            )
    return found


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
