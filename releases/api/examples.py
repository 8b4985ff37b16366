"""The documents that the schema shows for services, plans and releases."""

WEIGHTS = {
    "desired": {"stable": 95, "candidate": 5},
    "observed": {"stable": 94.8, "candidate": 5.2},
    "requests": 812,
    "interval_percent": [2.7, 7.9],
}
POLICY = {
    "approval": "another_person",
    "role": "approver",
    "approvers": None,
    "percent_before_approval": 50,
    "judge": True,
    "plans": None,
}
TEAM_POLICY = {
    "team": "default",
    "policy": POLICY,
    "changed_by": "ada",
    "changed_at": "2026-11-20T08:30:00Z",
}
TEAM_POLICY_CHANGE = {"policy": POLICY, "reason": "Agreed in the review of the outage."}
SERVICE = {
    "name": "chat",
    "team": "default",
    "description": "",
    "model": "chat-small",
    "alias": "production",
    "cluster": "local",
    "cluster_rule": {"region": "eu"},
    "cluster_choice": [
        {"cluster": "local", "fits": True, "says": "It fits, and 2 GPUs are free there: the most."},
        {"cluster": "prod", "fits": False, "says": "Its region is us, not eu."},
    ],
    "engine": "transformers",
    "replicas": 2,
    "slots": 4,
    "device": "auto",
    "resources": {},
    "pod": {},
    "settings": {},
    "image": None,
    "plan": "canary",
    "policy": None,
    "policy_replaces_team": False,
    "indicators": [],
    "state": "degraded",
    "reason": "1 of 2 workers answer: chat-r11-1 exited: terminated by SIGKILL",
    "stable": "chat-small:v1",
    "stable_since": "2026-11-20T09:00:00Z",
    "automation_paused_by": "",
    "candidate": "chat-small:v2",
    "release_in_motion": 12,
    "release_header": "off",
    "weights": WEIGHTS,
    "url": "http://127.0.0.1:8080/chat/",
    "created_by": "ada",
    "created_at": "2026-11-20T08:55:00Z",
}
POD_PATCH = {
    "id": 7,
    "state": "approved",
    "patch": {"spec": {"schedulerName": "volcano"}},
    "reason": "Gang scheduling, agreed with the cluster's operators.",
    "proposer": "ada",
    "proposed_at": "2026-11-20T09:00:00Z",
    "decider": "nina",
    "decided_at": "2026-11-20T09:30:00Z",
    "decision_reason": "Seen on staging.",
}
NEW_POD_PATCH = {"patch": POD_PATCH["patch"], "reason": POD_PATCH["reason"]}
POD_PATCH_DECISION = {"reason": "Seen on staging."}
RELEASE_HEADER = {"release_header": "secret", "reason": "For the nightly comparison."}
RELEASE_KEY = {"release_header": "secret", "release_key": "the-key-is-shown-this-once"}
TRAFFIC = {
    "service": "chat",
    "since": "2026-11-20T09:00:00Z",
    "until": "2026-11-20T10:00:00Z",
    "step_seconds": 60,
    "points": [
        {
            "began_at": "2026-11-20T09:00:00Z",
            "at": "2026-11-20T09:01:00Z",
            "versions": [
                {
                    "deployment": "chat-r12",
                    "version": "chat-small:v2",
                    "requests": 486,
                    "errors": 2,
                    "abandoned": 0,
                    "requests_per_s": 8.1,
                    "error_share": 0.004115,
                    "p50_ms": 210.0,
                    "p95_ms": 340.0,
                    "p99_ms": 512.0,
                    "first_byte_p95_ms": 120.0,
                }
            ],
        },
        {"began_at": "2026-11-20T09:01:00Z", "at": "2026-11-20T09:06:00Z", "versions": None},
    ],
}
SLOW_THRESHOLD = {
    "milliseconds": 800.0,
    "source": "person",
    "requests": 0,
    "release": None,
    "by": "nina",
    "reason": "v5 is the 70B model; 800 ms is our objective for it.",
    "at": "2026-11-20T09:30:00Z",
}
NEW_SLOW_THRESHOLD = {"milliseconds": 800, "reason": "v5 is the 70B model; 800 ms is our objective for it."}
NEW_SERVICE = {
    "name": "chat",
    "model": "chat-small",
    "version": "v1",
    "cluster": "local",
    "engine": "vllm",
    "replicas": 2,
    "resources": {"gpus_per_worker": 1, "memory": "32Gi"},
    "pod": {"node_selector": {"pool": "inference"}, "priority_class": "serving"},
    "alias": "production",
    "plan": "canary",
}
SERVICE_CHANGE = {"replicas": 4, "plan": "careful"}
PLAN_BODY = {
    "description": "A little traffic for ten minutes, then a person decides.",
    "steps": [
        {"kind": "deploy", "share_percent": 50},
        {"kind": "smoke_test", "requests": 3},
        {"kind": "weight", "percent": 5},
        {"kind": "hold", "seconds": 600},
        {"kind": "judge", "at_most_seconds": 300, "on_insufficient": "ask"},
        {"kind": "approval", "timeout_seconds": 86400},
        {"kind": "deploy", "share_percent": 100},
        {"kind": "promote"},
    ],
}
PLAN = {
    "name": "careful",
    "team": "default",
    "description": PLAN_BODY["description"],
    "body": PLAN_BODY,
    "hash": "6d738c790b98840f94298bb8925b44f02f2f30f8fe72f3af5e2fa894b268320c",
    "summary": [
        "deploy half as many workers as stable",
        "smoke test: 3 requests",
        "5 % for 10 min",
        "analysis for at most 5 min; if inconclusive: require approval",
        "approval by an approver",
        "deploy as many workers as stable",
        "promote",
    ],
    "changed_by": "ada",
    "changed_at": "2026-11-20T08:30:00Z",
}
NEW_PLAN = {"name": "careful", "team": "default", "body": PLAN_BODY}
PLAN_CHANGE = {"body": PLAN_BODY}
NEW_RELEASE = {"service": "chat", "version": "v2", "plan": "canary", "reason": "Longer training"}
RELEASE_ROW = {
    "id": 12,
    "service": "chat",
    "team": "default",
    "model": "chat-small",
    "version": "chat-small:v2",
    "from_version": "chat-small:v1",
    "state": "waiting_approval",
    "plan": {"name": "careful", "hash": PLAN["hash"]},
    "requester": "ada",
    "reason": "Longer training",
    "outcome": "",
    "created_at": "2026-11-20T09:00:00Z",
    "ended_at": None,
    "superseded_by": None,
    "undone_by": None,
    "bake_until": None,
    "url": "http://127.0.0.1:8000/releases/12/",
}
RELEASE = RELEASE_ROW | {
    "steps": [
        {
            "index": 0,
            "kind": "weight",
            "title": "5 %",
            "state": "done",
            "started_at": "2026-11-20T09:00:12Z",
            "ended_at": "2026-11-20T09:00:13Z",
            "actor": "",
            "detail": {"note": "The gateway sends 5 % to chat-small:v2."},
        },
        {
            "index": 1,
            "kind": "approval",
            "title": "approval by an approver",
            "state": "running",
            "started_at": "2026-11-20T09:10:20Z",
            "ended_at": None,
            "actor": "",
            "detail": {},
        },
    ],
    "clock": None,
    "weights": WEIGHTS,
    "verdict": {"decision": "promote", "reason": "Errors and slow answers are as rare as on stable."},
    "slow_threshold": {
        "milliseconds": 320.0,
        "source": "learnt",
        "requests": 4210,
        "measured_ms": 320.0,
        "previous_ms": 320.0,
        "is_held": False,
    },
    "waiting_for": {
        "kind": "approval",
        "right": "releases.approve",
        "role": "approver",
        "separate_requester": True,
        "people": 1,
        "since": "2026-11-20T09:10:20Z",
        "until": "2026-11-21T09:10:20Z",
        "why": "The plan asks for an approval by an approver who did not ask for the release.",
    },
    "approvals": [],
    "halted_by": "",
    "paused_by": "",
    "held": None,
    "frozen": None,
    "freeze_override": "",
    "undoes": None,
    "way_back": None,
    "bypassed": None,
    "image": "torch-2.9",
    "counted_by": "Counted by the gateway",
    "not_counted": "",
    "fetches": [],
    "last_error": "",
}
REASON = {"reason": "The evidence is fine, and so are the answers that I read."}
FORMER_VERSION = {
    "version": "chat-small:v1",
    "served_until": "2026-11-24T09:00:00Z",
    "release": 11,
    "plan": "return",
    "skips": ["hold 5 min", "approval by an approver"],
    "seconds": 42.0,
    "warm_workers": 0,
    "refusal": "",
}
RETURN = {"version": "v1", "reason": "v3 mixes up names of cities."}
ASK = {
    "side": "stable",
    "method": "POST",
    "path": "/v1/completions",
    "body": {"model": "chat", "prompt": "Hello", "max_tokens": 16, "stream": True},
}
LIVE = {
    "service": "chat",
    "at": "2026-11-24T14:00:00Z",
    "summary": "At 2026-11-24 14:00:00 UTC chat-small:v1 got all requests of chat, since 2026-11-20 09:00:00 "
    "UTC. chat-small:v1 came with release #11, requested by ada and approved by bo.",
    "since": "2026-11-20T09:00:00Z",
    "versions": [
        {
            "version": "chat-small:v1",
            "percent": 100,
            "since": "2026-11-20T09:00:00Z",
            "release": 11,
            "requested_by": "ada",
            "approvals": [
                {
                    "step_index": 6,
                    "decision": "approve",
                    "by": "bo",
                    "on_behalf_of": None,
                    "reason": "Evidence is fine",
                    "at": "2026-11-20T08:59:00Z",
                    "plan_hash": "9f2c61f0c7a1c6b7d8e29a40a4a3a4c0f4d7c2f3b9c6d1e0a8b7c6d5e4f3a2b1",
                }
            ],
            "audit_entry": 412,
        }
    ],
    "cohort": "",
    "withheld_since": None,
}
ADAPTER = {
    "name": "pirate",
    "version": "pirate-lora:v3",
    "loaded_by": "ada",
    "loaded_at": "2026-11-24T14:00:00Z",
    "workers": 2,
    "loaded": 2,
    "problem": "",
}
NEW_ADAPTER = {"version": "pirate-lora:v3", "reason": "The campaign starts."}
INDICATOR = {
    "name": "refunds",
    "source": "pushed",
    "description": "Orders that were refunded within the hour.",
    "all_query": "",
    "bad_query": "",
    "url": "",
    "defined_by": "ada",
    "defined_at": "2026-11-24T14:00:00Z",
}
NEW_INDICATOR = {
    "source": "prometheus",
    "description": "Searches without a click.",
    "all_query": 'shop_searches_total{release="$version"}',
    "bad_query": 'shop_searches_without_click_total{release="$version"}',
    "url": "http://prometheus.monitoring:9090",
}
_STRETCH = {"version": "chat:v2", "at": "2026-11-24T14:05:00Z", "seconds": 60, "events": 420, "bad": 3}
NEW_COUNTS = {"counts": [_STRETCH, {**_STRETCH, "version": "chat:v1", "events": 3900, "bad": 31}]}
PUSHED = {"kept": 1, "known": 1, "different": []}
