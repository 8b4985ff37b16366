"""The documents that the schema shows for clusters, machines, deployments and workers."""

CLUSTER = {
    "name": "prod",
    "kind": "kubernetes",
    "state": "warning",
    "team": "vision",
    "host": "",
    "region": "eu-central",
    "provider": "aws",
    "labels": {"tier": "gold"},
    "settings": {"namespace": "slipway", "context": "prod"},
    "secrets": ["kubeconfig"],
    "problem": "",
    "surveyed_at": "2026-11-20T08:30:00Z",
    "checks": [
        {"name": "version", "result": "passed", "detail": "Kubernetes v1.36.2."},
        {
            "name": "right: patch nodes",
            "result": "warning",
            "detail": "May not patch nodes. Machines cannot be cordoned or tainted from here.",
        },
    ],
    "checked_at": "2026-11-20T08:25:00Z",
    "created_at": "2026-11-20T08:00:00Z",
}
NEW_CLUSTER = {
    "name": "prod",
    "kind": "kubernetes",
    "team": "vision",
    "region": "eu-central",
    "provider": "aws",
    "labels": {"tier": "gold"},
    "settings": {"namespace": "slipway", "context": "prod"},
    "secrets": {"kubeconfig": "apiVersion: v1\nkind: Config\n"},
}
CLUSTER_CHANGE = {"region": "eu-central", "settings": {"namespace": "slipway"}, "secrets": {}}
NODE = {
    "id": 7,
    "uid": "3d1219c7c4c5404aaa1f6d2a48adfda4",
    "name": "box-1",
    "address": "10.0.0.7",
    "boot_id": "89000bd7-ae85-4342-9a92-dcaccc83648b",
    "provider_id": "",
    "cpu_count": 16,
    "memory_bytes": 137438953472,
    "labels": {"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "box-1", "kubernetes.io/os": "linux"},
    "taints": [{"key": "gpu", "value": "reserved", "effect": "NoSchedule"}],
    "conditions": [{"type": "Ready", "status": "True", "reason": "", "message": ""}],
    "is_cordoned": True,
    "cordoned_by": "ada",
    "cordon_reason": "GPU 0 is to be replaced.",
    "cordoned_at": "2026-11-20T08:20:00Z",
    "operation": "",
    "operation_by": "",
    "operation_problem": "",
    "group": "online",
    "state": "ready",
    "state_since": "2026-11-20T08:00:00Z",
    "problem": "",
    "seen_at": "2026-11-20T08:30:00Z",
    "agent_silent_since": None,
    "gpus": [
        {
            "uuid": "GPU-509665ad-1a3f-2b5c-8d1e-7f60a1b2c3d4",
            "index": 0,
            "name": "NVIDIA H100 80GB HBM3",
            "memory_bytes": 85520809984,
            "driver": "550.54.15",
            "serial": "1654922006536",
            "pci_bus_id": "00000000:3B:00.0",
            "sharing": "",
            "state": "present",
            "state_since": "2026-11-20T08:00:00Z",
        }
    ],
}
LOAD = {"busy": 0.42, "in_flight": 3, "slots": 8, "workers": 2, "ready": 2, "lost": 0, "stuck": 0}
BUSY = {
    "live": True,
    "now": LOAD,
    "nodes": [{"id": 7, "name": "box-1", "load": LOAD}],
    "history": [
        {
            "at": "2026-11-20T08:30:00Z",
            "busy": 0.4,
            "in_flight": 3,
            "slots": 8,
            "workers": 2,
            "nodes": {"7": 0.4},
        }
    ],
}
WORKER = {
    "name": "chat-r12-0",
    "uid": "chat-r12-0",
    "node": "box-1",
    "address": "10.0.0.7",
    "port": 21003,
    "pid": 4711,
    "state": "failed",
    "state_since": "2026-11-20T08:30:00Z",
    "restarts": 3,
    "reason": "exit status 1: RuntimeError: CUDA out of memory",
    "alert": "",
}
DEPLOYMENT = {
    "name": "chat-r12",
    "cluster": "local",
    "team": "default",
    "service": "chat",
    "version": "story:v2",
    "engine": "transformers",
    "replicas": 1,
    "observed_replicas": None,
    "replicas_by": "",
    "slots": 4,
    "device": "auto",
    "image": "torch-2.9",
    "image_reference": "registry.example.org/serving/torch"
    "@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "image_reason": "torch-2.9: transformers 5.2 with CUDA 12.8 is the only one that fits "
    "NVIDIA H100 80GB HBM3 (compute capability 9.0, driver 550.54.15).",
    "files_reason": "Each machine keeps a cache: pods reach Slipway at store_url, and may use a directory of "
    "their machine.",
    "fetches": [],
    "state": "failing",
    "state_since": "2026-11-20T08:30:00Z",
    "reason": "chat-r12-0 exited 3 times in 20 s: exit status 1: RuntimeError: CUDA out of memory",
    "observed_at": "2026-11-20T08:30:01Z",
    "created_at": "2026-11-20T08:29:00Z",
    "created_by": "ada",
    "workers": [WORKER],
}
WORKER_LOG = {"worker": "chat-r12-0", "log": "RuntimeError: CUDA out of memory\n"}
NODE_REPORT = {
    "node": "3d1219c7c4c5404aaa1f6d2a48adfda4",
    "session": "8f14e45fceea167a",
    "sequence": 4711,
    "workers": [
        {
            "worker": "chat-r12-0",
            "deployment": "chat-r12",
            "service": "chat",
            "version": "story:v2",
            "engine": "transformers",
            "device": "cuda",
            "machine": "box-1",
            "address": "10.0.0.7",
            "port": 21003,
            "pid": 4711,
            "state": "ready",
            "busy": 0.42,
            "in_flight": 3,
            "slots": 8,
            "started_at": 1795239500.0,
            "at": 1795239614.5,
        }
    ],
    "devices": [
        {
            "uuid": "GPU-509665ad-1a3f-2b5c-8d1e-7f60a1b2c3d4",
            "readings": {"utilization_ratio": 0.42, "temperature_celsius": 61},
        }
    ],
}
HEARTBEATS = {"workers": NODE_REPORT["workers"]}
HEARTBEAT_RECEIPT = {
    "accepted": 1,
    "refused": [
        {"worker": "chat-r1-0", "reason": "There is no worker chat-r1-0 for which you may report."},
    ],
}
RECEIPT = {
    "accepted": 2,
    "refused": [{"entry": "chat-r1-0", "reason": "chat-r1-0 runs on another machine."}],
}
MODEL_FILES = {
    "version": "tiny-llama:v2",
    "digest": "1f3f1c4ae7d84a21d5b1c0b0c7a60c1d7a2b9f06f5f1f6d7d6b1d0e9c8b7a6f5",
    "size_bytes": 13_400_211,
    "files": [
        {
            "path": "model.safetensors",
            "size": 13_400_211,
            "sha256": "7d08538860cb9392fd96df004bb918a14cd2fe5d5e6663f99d930c5655be83fe",
        }
    ],
}
REPLACED = [{"deployment": "chat-r12", "service": "chat", "leaving": 1, "started": 1, "ready": 1, "why": ""}]

DRAIN_PREVIEW = {
    "problem": "",
    "counts": {"evicted": 1, "left": 1},
    "pods": [
        {
            "namespace": "slipway",
            "name": "chat-r12-7c9f4-x2x4p",
            "owner": "ReplicaSet chat-r12-7c9f4",
            "deployment": "chat-r12",
            "gpus": 1,
            "fate": "evicted",
            "why": "",
            "blocked_by": "The budget slipway/chat-r12 allows none now: 1 of 1 are ready.",
        },
        {
            "namespace": "monitoring",
            "name": "node-exporter-8qk2v",
            "owner": "DaemonSet node-exporter",
            "deployment": "",
            "gpus": 0,
            "fate": "left",
            "why": "It belongs to every machine: it would come back at once.",
            "blocked_by": "",
        },
    ],
    "deployments": [
        {
            "name": "chat-r12",
            "service": "chat",
            "version": "chat:v2",
            "leaving": 1,
            "ready_elsewhere": 1,
            "note": "",
        }
    ],
    "replacements": [{**REPLACED[0], "ready": 0}],
    "remaining": {
        "gpu_type": "NVIDIA H100 80GB HBM3",
        "free": 3,
        "wanted": 1,
        "pods": 1,
        "placed": 1,
        "is_stale": False,
    },
}
DRAIN = {
    "id": 12,
    "node": "box-1",
    "node_id": 7,
    "cluster": "prod",
    "state": "evicting",
    "state_since": "2026-11-20T08:30:03Z",
    "by": "ada",
    "reason": "GPU 0 is to be replaced.",
    "options": {
        "grace_seconds": None,
        "within_seconds": 3600,
        "daemons_are_left": True,
        "local_data_may_go": False,
        "unowned_may_go": False,
        "past_budgets": False,
        "checkpoint_seconds": 900,
        "replace_seconds": 600,
        "gpu_pods_only": False,
        "namespaces": {"batch": {"policy": "finish", "within_seconds": 1800}},
    },
    "has_cordoned": True,
    "problem": "",
    "stuck": "",
    "replacements": REPLACED,
    "pods": [
        {
            "namespace": "slipway",
            "name": "chat-r12-7c9f4-x2x4p",
            "owner": "ReplicaSet chat-r12-7c9f4",
            "deployment": "chat-r12",
            "gpus": 1,
            "fate": "leaving",
            "why": "It was asked to end.",
            "blocked_by": "",
            "refusals": 0,
            "asked_at": "2026-11-20T08:30:05Z",
            "left_at": None,
        }
    ],
    "seen_at": "2026-11-20T08:30:06Z",
    "cancelled_by": "",
    "cancel_reason": "",
    "asked_at": "2026-11-20T08:30:00Z",
    "ended_at": None,
}
RELAY_REPORT = {
    "session": "5f1c9a3e77b0d2e4",
    "sequence": 61,
    "known": "9b1d03f0c2a45e77",
    "machines": [{"machine": "gpu-01", "workers": HEARTBEATS["workers"]}],
}
RELAY_ANSWER = {
    "accepted": 1,
    "refused": [],
    "revision": "9b1d03f0c2a45e77",
    "reporters": {"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae": "chat-r12"},
    "targets": [],
}
CAPACITY = {
    "seen_at": "2026-11-20T08:30:00Z",
    "is_stale": False,
    "problem": "",
    "types": [
        {
            "gpu_type": "NVIDIA H100 80GB HBM3",
            "resource": "nvidia.com/gpu",
            "memory_bytes": 85520809984,
            "sharing": "",
            "machines": 3,
            "total": 24,
            "ours": 4,
            "others": 7,
            "free": 13,
            "fragmented": 5,
            "unavailable": 0,
            "usual": 4,
            "largest": 8,
        }
    ],
    "pending_count": 1,
    "pending": [
        {
            "namespace": "research",
            "name": "train-0",
            "deployment": "",
            "gpus": 8,
            "why": "None of the 3 machines can take it: too little nvidia.com/gpu free on 3 machines.",
        }
    ],
}
NODE_EVENTS = {
    "heard_at": "2026-11-20T08:30:00Z",
    "next": None,
    "results": [
        {
            "type": "Warning",
            "kind": "Node",
            "name": "gpu-1",
            "uid": "gpu-1",
            "reason": "NodeNotReady",
            "message": "Node gpu-1 status is now: NodeNotReady",
            "count": 3,
            "first_at": "2026-11-20T08:10:00Z",
            "last_at": "2026-11-20T08:29:00Z",
            "by": "node-controller",
        }
    ],
}
