"""Abilities of Kubernetes clusters."""

from clusters.backends.abilities import BackendAbilities

ABILITIES = BackendAbilities(
    has_pods=True,
    pulls_images=True,
    has_credentials=True,
    tells_changes=True,
    tells_conditions=True,
    fetches_files=True,
    reports_by_token=True,
)
