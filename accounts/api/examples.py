"""The documents that the schema shows for people, teams, tokens, webhooks and the record."""

PERSON = {
    "username": "ada",
    "first_name": "Ada",
    "last_name": "Lovelace",
    "email": "ada@example.org",
    "kind": "person",
    "is_active": True,
    "suspended_at": None,
    "is_superuser": False,
    "last_login": "2026-11-20T08:30:00Z",
    "teams": [{"team": "vision", "role": "developer"}],
}
NEW_PERSON = {
    "username": "ada",
    "email": "ada@example.org",
    "first_name": "Ada",
    "last_name": "Lovelace",
    "team": "vision",
    "role": "developer",
}
PERSON_CHANGE = {"is_active": False}
PASSWORD = {"password": "four common words together"}
TEAM = {"name": "vision", "description": "Image models", "created_at": "2026-11-19T16:00:00Z"}
NEW_TEAM = {"name": "vision", "description": "Image models"}
TEAM_CHANGE = {"description": "Image and video models"}
MEMBER = {"username": "ada", "role": "developer", "created_at": "2026-11-19T16:00:00Z"}
ROLE_CHANGE = {"role": "approver", "reason": "Takes part in the releases of the spring."}
NEW_MEMBER = ROLE_CHANGE | {"username": "ada"}
TOKEN = {
    "id": 7,
    "name": "ci",
    "prefix": "qj64pe200r",
    "owner": "ada",
    "team": "vision",
    "scopes": ["read", "releases.start"],
    "services": ["chat"],
    "state": "active",
    "created_at": "2026-11-20T08:30:00Z",
    "expires_at": "2027-02-18T08:30:00Z",
    "revoked_at": None,
    "last_used_at": None,
}
NEW_TOKEN = {
    "name": "ci",
    "scopes": ["read", "releases.start"],
    "team": "vision",
    "services": ["chat"],
    "expires_at": "2027-03-01T00:00:00Z",
}
ISSUED_TOKEN = TOKEN | {"token": "slp_qj64pe200r_the-secret-is-shown-this-once"}
ME = {
    "username": "ada",
    "first_name": "Ada",
    "last_name": "Lovelace",
    "email": "ada@example.org",
    "is_superuser": False,
    "token": TOKEN,
    "everywhere": [],
    "teams": [{"team": "vision", "rights": ["models.write", "read", "releases.start"]}],
}
AUDIT_RECORD = {
    "seq": 178,
    "at": "2026-11-20T09:12:00Z",
    "actor": "bo",
    "via": "web",
    "address": "10.0.0.12",
    "action": "release.approve",
    "subject_kind": "releases.release",
    "subject_id": "12",
    "subject_label": "chat to chat-small:v2",
    "team_id": 1,
    "reason": "The evidence is fine.",
    "detail": {"step": 6},
    "previous_hash": "fd34a0688ef7662a6814d81b76dc0dc0c1efca3556975069dd9ccfeb4df23338",
    "hash": "1eac1334c372968a39cbf39f8e59cd946913abf3227b151844ad9acb06cec48d",
    "key_id": "5d1c6bd0f0b3",
    "signature": "8d0c4bb8de7f4f3f0f1f5a43a1c1c7a0e3b7d1c5a9e2f6b4d8c0a1b2c3d4e5f6",
}
AUDIT_VERDICT = {
    "intact": True,
    "checked": 178,
    "proven": "Entries 1 to 178 are unchanged since their head was exported on 2026-11-20 09:12:30 UTC.",
    "head_hash": AUDIT_RECORD["hash"],
    "anchored_seq": 178,
    "anchored_at": "2026-11-20T09:12:30Z",
    "signed_until": 178,
    "broken_seq": None,
    "broken_reason": "",
}
WEBHOOK = {
    "id": 3,
    "team": "vision",
    "person": None,
    "url": "https://hooks.example.org/slipway",
    "description": "Tells the channel #releases.",
    "events": ["release.ended", "release.waiting_approval"],
    "teams": [],
    "severity": "any",
    "format": "standard",
    "language": "en",
    "quiet_hours": None,
    "digest_minutes": 0,
    "enabled": True,
    "disabled_why": "",
    "failing_since": None,
    "delivered_at": "2026-11-20T09:12:01Z",
    "former_secret_until": None,
    "created_by": "ada",
    "created_at": "2026-11-20T08:30:00Z",
}
NEW_WEBHOOK = {
    "url": "https://hooks.example.org/slipway",
    "team": "vision",
    "events": ["release.ended", "release.waiting_approval"],
    "description": "Tells the channel #releases.",
}
WEBHOOK_CHANGE = {"enabled": False, "reason": "The channel moves."}
ISSUED_WEBHOOK = WEBHOOK | {"secret": "whsec_dGhlIHNlY3JldCBpcyBzaG93biB0aGlzIG9uY2U="}
DELIVERY = {
    "id": 41,
    "message_id": "msg_0b9ff3a1c3a94d0f8f5c8d9b1a1e7c55",
    "type": "release.ended",
    "state": "delivered",
    "tries": 2,
    "due_at": None,
    "created_at": "2026-11-20T09:12:00Z",
    "history": [
        {
            "at": "2026-11-20T09:12:00.412000+00:00",
            "status": 503,
            "milliseconds": 31,
            "answer": "busy",
            "error": "",
        },
        {
            "at": "2026-11-20T09:12:05.903000+00:00",
            "status": 200,
            "milliseconds": 28,
            "answer": "",
            "error": "",
        },
    ],
}
DELIVERY_DETAIL = DELIVERY | {
    "body": {
        "type": "release.ended",
        "timestamp": "2026-11-20T09:12:00.251000+00:00",
        "data": {"release_id": 12, "state": "promoted"},
    }
}
STUCK = {
    "kind": "hubs.hubsync",
    "id": 12,
    "title": "Sync of acme/chat@main",
    "url": "/models/chat/+syncs/12/",
    "state": "stuck",
    "since": "2026-11-20T09:12:00Z",
    "failing_since": "2026-11-20T09:11:00Z",
    "why": "No space left on device",
    "attempts": 5,
    "doubts": [],
    "may_retry": True,
}
STUCK_LIST = {"results": [STUCK]}
STUCK_DONE = {"kind": "hubs.hubsync", "id": 12, "stuck": False}
STUCK_ANSWER = {
    "op_key": "benchmarks.run:12:3:book",
    "happened": True,
    "reason": "The order is in the provider's list.",
}
