"""The documents that the schema shows for usage."""

USAGE = {
    "day": "2026-11-20",
    "team": "speech",
    "service": "chat",
    "version": "chat:v3",
    "key": "shop",
    "requests": 1200,
    "errors": 3,
    "refused": 10,
    "prompt_tokens": 240000,
    "completion_tokens": 96000,
    "gpu_hours": 0.0,
    "cost": 0.0,
}
USAGE_REPORT = {"since": "2026-11-01", "until": "2026-11-30", "currency": "USD", "rows": [USAGE]}
BUDGET = {
    "id": 3,
    "name": "chat-tokens",
    "team": "speech",
    "description": "",
    "service": "chat",
    "measure": "tokens",
    "amount": 1000000.0,
    "warn_percent": 80,
    "state": "near",
    "used": 860000.0,
    "created_at": "2026-11-01T08:00:00Z",
    "created_by": "ada",
}
NEW_BUDGET = {
    "name": "chat-tokens",
    "team": "speech",
    "service": "chat",
    "measure": "tokens",
    "amount": 1000000,
}
