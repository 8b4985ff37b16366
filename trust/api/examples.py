"""The documents that the schema shows for keys, what teams demand of signatures, and signing."""

from common.api.samples import FINGERPRINT

PUBLIC_KEY = (
    "-----BEGIN PUBLIC KEY-----\n"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE2G2Y+2tabdTV5BcGiBIx0a9fAFwr\n"
    "kBbmLSGtks4L3qX6yYY0zufBnhC8Ur/iy55GhWP/9A/bY2LhC30M9+RYtw==\n"
    "-----END PUBLIC KEY-----\n"
)


TRUSTED_KEY = {
    "id": 3,
    "team": "vision",
    "name": "release-ci",
    "pem": PUBLIC_KEY,
    "fingerprint": FINGERPRINT,
    "reason": "The key of the release pipeline, read out by bo.",
    "added_at": "2026-11-19T16:00:00Z",
    "added_by": "cleo",
    "in_force": True,
    "removed_at": None,
    "removed_by": "",
}


NEW_TRUSTED_KEY = {
    "team": "vision",
    "name": "release-ci",
    "pem": PUBLIC_KEY,
    "reason": "The key of the release pipeline, read out by bo.",
}


KEY_REMOVAL = {"reason": "The pipeline has a new key."}


SIGNATURE_POLICY = {
    "team": "vision",
    "demand": "require",
    "reason": "All pipelines sign since October.",
    "changed_at": "2026-11-19T16:10:00Z",
    "changed_by": "cleo",
}


SIGNATURE_POLICY_PUT = {"demand": "require", "reason": "All pipelines sign since October."}


SIGNING = {"signs": True, "fault": "", "public_key": PUBLIC_KEY, "fingerprint": FINGERPRINT}
