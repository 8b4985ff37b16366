"""What the vendor of a machine wants to see before it takes a GPU back: one zip per incident."""

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from gpu_health.evidence_collection import known_evidence
from gpu_health.models import Finding, Incident
from gpu_health.signals.reading import bus_id

README = """Evidence of a GPU fault, for a return (RMA) or a support case.

incident.json   machine, fault, the GPU in question with its serial number, and what was done
gpus.json       all GPUs of the machine: serial numbers, UUIDs, PCI buses, driver
findings.json   what was judged, by which rule, and the lines that it rests on
kernel.log      lines of the kernel log, as the machine's agent reported them
readings.json   counters and events, oldest first
timeline.json   from the first line to the return to service
checks.json     what the last check of the machine found
outputs/        of nvidia-smi -q, dmesg and others, from before the first action

Written {at}. {collected}
"""


def bundle(incident: Incident, at: datetime) -> tuple[str, bytes]:
    """Name and content of the zip file."""
    found = document(incident, at)
    name = f"rma-{_safe(incident.node.name)}-incident-{incident.pk}"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in _files(found):
            archive.writestr(f"{name}/{path}", text)
    return f"{name}.zip", content.getvalue()


def document(incident: Incident, at: datetime) -> dict[str, Any]:
    """The same as one JSON document. What was collected before the first action counts; of what was not,
    what the control plane knows now."""
    collected = incident.evidence
    known = {**known_evidence(incident), **collected} if collected else known_evidence(incident)
    findings = Finding.objects.filter(node_id=incident.node_id, last_at__gte=incident.first_at).order_by("pk")
    return {
        "written_at": at.isoformat(),
        "is_collected": bool(collected),
        "incident": {
            "id": incident.pk,
            "cluster": incident.node.cluster.name,
            "fault": incident.fault,
            "title": str(incident.title),
            "severity": incident.severity,
            "state": incident.state,
            "rule": incident.rule,
            "device": incident.device,
            "gpu_uuid": incident.gpu_uuid,
            "first_seen": incident.first_at.isoformat(),
            "opened": incident.opened_at.isoformat(),
            "actions": incident.acts,
        },
        "machine": known.get("machine", {}),
        "gpu": _concerned(incident, known.get("gpus", [])),
        "gpus": known.get("gpus", []),
        "findings": [
            {
                "fault": one.fault,
                "device": one.device,
                "gpu_uuid": one.gpu_uuid,
                "severity": one.severity,
                "count": one.count,
                "first_seen": one.first_at.isoformat(),
                "last_seen": one.last_at.isoformat(),
                "rule": one.rule,
                "citation": one.citation,
                "raw": one.raw,
            }
            for one in findings
        ],
        "readings": known.get("readings", []),
        "outputs": known.get("outputs", []),
        "checks": incident.check_result,
        "timeline": [
            {"at": one.at.isoformat(), "state": one.state, "by": one.actor, "event": one.words}
            for one in incident.timeline.all()
        ],
    }


def _concerned(incident: Incident, gpus: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The GPU that the incident is about; None: the whole machine, or nobody knows its serial number."""
    for one in gpus:
        is_it = incident.gpu_uuid and one.get("uuid") == incident.gpu_uuid
        if is_it or (incident.device and bus_id(str(one.get("pci_bus_id", ""))) == incident.device):
            return one
    return None


def _files(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    collected = "" if found["is_collected"] else "Nothing was collected on the machine: no action was taken."
    yield "README.txt", README.format(at=found["written_at"], collected=collected)
    yield "incident.json", _json({name: found[name] for name in ("incident", "machine", "gpu")})
    for name in ("gpus", "findings", "readings", "timeline", "checks"):
        yield f"{name}.json", _json(found[name])
    lines = [one for one in found["readings"] if one.get("source") == "kernel_log" and one.get("raw")]
    yield "kernel.log", "".join(f"{one['at']} {one['raw']}\n" for one in lines)
    for number, one in enumerate(found["outputs"], start=1):
        told = f"$ {one.get('command', '')}\n# exit status {one.get('status')}\n{one.get('output', '')}\n"
        yield f"outputs/{number:02d}-{_safe(str(one.get('command', '')))[:60]}.txt", told


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"


def _safe(text: str) -> str:
    """Return a file name that is safe on every system."""
    return "".join(one if one.isascii() and (one.isalnum() or one in "-_.") else "-" for one in text).strip(
        "-."
    )
