"""What the check of texts leaves out."""

ENGLISH = (
    # Read by operators in a terminal, before there is a language.
    "controlplane/env.py",
    "controlplane/embedded/",
    # Samples of every component, for those who build screens.
    "common/pages/styleguide.py",
    "templates/common/styleguide.html",
)
NOT_YET: tuple[str, ...] = (
    "accounts/",
    "clusters/",
    "common/api/",
    "common/pages/",
    "common/models.py",
    "common/reconcile/",
    "common/revisions.py",
    "common/transitions.py",
    "common/webhooks/",
    "controlplane/",
    "gateway/",
    "images/",
    "models_registry/",
    "releases/",
    "templates/",
)
"""Beginnings of paths whose strings are not all marked yet."""
