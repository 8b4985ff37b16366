"""Abilities of this machine as a cluster."""

from clusters.backends.abilities import BackendAbilities

ABILITIES = BackendAbilities(runs_on_host=True)
