"""The documents that the schema shows for people, teams, tokens and the record."""

PERSON = {
    "username": "ada",
    "first_name": "Ada",
    "last_name": "Lovelace",
    "email": "ada@example.org",
    "is_active": True,
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
    "scopes": ["read", "models.write", "releases.start"],
    "state": "active",
    "created_at": "2026-11-20T08:30:00Z",
    "expires_at": "2027-02-18T08:30:00Z",
    "revoked_at": None,
    "last_used_at": None,
}
NEW_TOKEN = {
    "name": "ci",
    "scopes": ["read", "models.write", "releases.start"],
    "team": "vision",
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
}
AUDIT_VERDICT = {
    "intact": True,
    "checked": 178,
    "head_hash": AUDIT_RECORD["hash"],
    "broken_seq": None,
    "broken_reason": "",
}
