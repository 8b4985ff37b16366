"""Unload the driver and load it again: all that uses it is stopped first."""

from gpu_health.actions.base import Command, JobAction

SERVICES = ("nvidia-dcgm", "dcgm-exporter", "nvidia-fabricmanager", "nvidia-persistenced")
MODULES = ("nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")

RESTART_DRIVER = JobAction(
    "restart_driver",
    (
        *(Command(("systemctl", "stop", one), may_fail=True) for one in SERVICES),
        *(Command(("modprobe", "-r", one), may_fail=one != "nvidia") for one in MODULES),
        Command(("modprobe", "nvidia"), seconds=300, always=True),
        Command(("modprobe", "nvidia_uvm"), always=True),
        *(Command(("systemctl", "start", one), may_fail=True, always=True) for one in reversed(SERVICES)),
        Command(("nvidia-smi", "-L")),
    ),
)
