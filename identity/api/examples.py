"""The documents that the schema shows."""

GROUP_RULE = {
    "id": 3,
    "pattern": "ml-vision-*",
    "team": "vision",
    "role": "developer",
    "created_at": "2026-11-20T08:30:00Z",
    "created_by": "admin",
}
NEW_GROUP_RULE = {"pattern": "ml-vision-*", "team": "vision", "role": "developer"}
GROUP_RULE_CHANGE = {"role": "approver", "reason": "Takes part in the releases of the spring."}
DRY_RUN_REQUEST = {
    "rules": [{"pattern": "ml-vision-*", "team": "vision", "role": "developer"}],
    "groups": ["ml-vision-eu"],
}
DRY_RUN = {
    "known": 12,
    "people": [
        {"username": "ada", "changes": [{"team": "vision", "before": "viewer", "after": "developer"}]}
    ],
    "given": [{"team": "vision", "before": None, "after": "developer"}],
}
SERVICE_ACCOUNT = {
    "username": "vision-ci",
    "description": "Pipeline of acme/vision",
    "is_active": True,
    "teams": [{"team": "vision", "role": "developer"}],
}
NEW_SERVICE_ACCOUNT = {"username": "vision-ci", "team": "vision", "role": "developer"}
NEW_FEDERATED_CREDENTIAL = {
    "account": "vision-ci",
    "name": "main",
    "issuer": "https://token.actions.githubusercontent.com",
    "subject": "repo:acme/vision:ref:refs/heads/main",
    "scopes": ["models.write", "read", "releases.start"],
}
FEDERATED_CREDENTIAL = NEW_FEDERATED_CREDENTIAL | {
    "id": 7,
    "audience": "https://slipway.example.org",
    "claims": {"environment": "production"},
    "minutes": 30,
    "single_use": False,
    "created_at": "2026-11-20T08:30:00Z",
    "created_by": "ada",
    "last_used_at": None,
}
FEDERATED_CREDENTIAL_CHANGE = {"subject": "repo:acme/vision:*", "reason": "Branches push, too."}
EXCHANGE = {"token": "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIuLi4ifQ.c2lnbmF0dXJl", "account": "vision-ci"}
EXCHANGED = {
    "token": "slp_exampleone_shownonce",
    "account": "vision-ci",
    "scopes": ["models.write", "read", "releases.start"],
    "expires_at": "2026-11-20T09:00:00Z",
}
