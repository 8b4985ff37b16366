"""The documents that the schema shows for exemptions, keys, what teams demand of signatures, and signing."""

CODE_EXEMPTION = {
    "id": 5,
    "team": "vision",
    "model": "tiny-llama",
    "covers_runnable": False,
    "reason": "Bo has read the code of this commit; the architecture is not in transformers yet.",
    "given_at": "2026-11-20T09:00:00Z",
    "given_by": "cleo",
    "until": "2027-02-01T00:00:00Z",
    "in_force": True,
    "ended_at": None,
    "ended_by": "",
}


NEW_CODE_EXEMPTION = {
    "team": "vision",
    "model": "tiny-llama",
    "covers_runnable": False,
    "reason": "Bo has read the code of this commit; the architecture is not in transformers yet.",
    "until": "2027-02-01T00:00:00Z",
}


EXEMPTION_END = {"reason": "The architecture is in transformers now."}
