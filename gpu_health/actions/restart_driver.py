"""Unload the driver and load it again: all that uses it is stopped first."""

from gpu_health.actions.base import Command, JobAction
from gpu_health.actions.holders import started, stopped

SERVICES = ("nvidia-dcgm", "dcgm-exporter", "nvidia-fabricmanager", "nvidia-persistenced")
MODULES = ("nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")

RESTART_DRIVER = JobAction(
    "restart_driver",
    (
        *stopped(services=SERVICES),
        *(Command(("modprobe", "-r", one), may_fail=one != "nvidia") for one in MODULES),
        Command(("modprobe", "nvidia"), seconds=300, always=True),
        Command(("modprobe", "nvidia_uvm"), always=True),
        *started(SERVICES[::-1]),
        Command(("nvidia-smi", "-L")),
    ),
)
