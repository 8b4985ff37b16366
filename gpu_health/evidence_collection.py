"""What is kept of a machine before an action wipes it: a reset clears counters, a restart the log."""

from typing import Any

from clusters.models import Gpu
from gpu_health.actions.base import Command, JobAction
from gpu_health.models import Incident, StoredReading

MOST_READINGS = 200
MOST_OUTPUT = 16_000

COLLECT = JobAction(
    "collecting evidence",
    tuple(
        Command(argv, seconds=60, may_fail=True)
        for argv in (
            ("nvidia-smi", "-q"),
            ("nvidia-smi", "nvlink", "--status"),
            ("nvidia-smi", "--query-remapped-rows=gpu_uuid,remapped_rows.correctable,"
             "remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure", "--format=csv"),
            ("lspci", "-d", "10de:", "-vv"),
            ("ibstat",),
            ("dmesg", "--time-format", "iso"),
        )
    ),
)  # fmt: skip


def known_evidence(incident: Incident) -> dict[str, Any]:
    """Return what the control plane knows of the machine, JSON-ready."""
    node = incident.node
    rows = StoredReading.objects.filter(node=node).order_by("-at", "-pk")[:MOST_READINGS]
    gpus = Gpu.objects.filter(node=node).order_by("index")
    return {
        "machine": {
            "name": node.name,
            "uid": node.uid,
            "provider_id": node.provider_id,
            "boot_id": node.boot_id,
            "conditions": node.conditions,
        },
        "gpus": [
            {name: getattr(gpu, name) for name in ("uuid", "serial", "name", "driver", "pci_bus_id", "index")}
            for gpu in gpus
        ],
        "readings": [
            {
                "at": row.at.isoformat(),
                "source": row.source,
                "fault": row.fault,
                "gpu": row.gpu_bus_id or row.gpu_uuid,
                "value": row.value,
                "raw": row.raw,
            }
            for row in reversed(rows)
        ],
    }


def told_by_job(result: Any) -> list[dict[str, Any]]:
    """The outputs of the job's commands, the ends of long ones."""
    commands = result.get("commands", []) if isinstance(result, dict) else []
    return [
        {
            "command": " ".join(map(str, one.get("argv", []))),
            "status": one.get("status"),
            "output": str(one.get("output", ""))[-MOST_OUTPUT:],
        }
        for one in commands
        if isinstance(one, dict)
    ]
