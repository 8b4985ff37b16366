from gpu_health.models.checks import CheckSchedule, GpuCheck, GpuCheckRows
from gpu_health.models.drills import Drill, DrillCluster, DrillRows
from gpu_health.models.findings import Finding, FindingQuerySet, StoredReading
from gpu_health.models.gpu_counts import GpuCount
from gpu_health.models.healing import HealingPolicy, HealingPool, HealingSlot
from gpu_health.models.incidents import Incident, IncidentEntry, IncidentRows
from gpu_health.models.prices import GpuPrices
from gpu_health.models.rules import JudgingAnew, RuleChange
from gpu_health.models.signals import EventReader, NodeSignals, SignalReader

__all__ = [
    "CheckSchedule",
    "Drill",
    "DrillCluster",
    "DrillRows",
    "EventReader",
    "Finding",
    "FindingQuerySet",
    "GpuCheck",
    "GpuCheckRows",
    "GpuCount",
    "GpuPrices",
    "HealingPolicy",
    "HealingPool",
    "HealingSlot",
    "Incident",
    "IncidentEntry",
    "IncidentRows",
    "JudgingAnew",
    "NodeSignals",
    "RuleChange",
    "SignalReader",
    "StoredReading",
]
