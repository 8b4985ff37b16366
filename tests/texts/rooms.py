"""What the check of texts leaves out."""

ENGLISH = (
    # Read by operators in a terminal, before there is a language.
    "controlplane/env.py",
    "controlplane/environment/",
    "controlplane/setting_types.py",
    # Sent before there is a request, and with it a language.
    "controlplane/connections.py",
    "controlplane/embedded/",
    # Names of SQL.
    "common/database/operations.py",
    "controlplane/backup/",
    "controlplane/support/",
    "controlplane/server/",
    "accounts/management/",
    "clusters/management/",
    "controlplane/management/",
    "controlplane/sample/",
    "common/audit/",
    # The schema of a document that programs write.
    "releases/policy.py",
    # Samples of every component, for those who build screens.
    "common/pages/styleguide.py",
    "templates/common/styleguide.html",
    # What workers of Celery and the sweeper find out is kept in rows, which have many readers.
    "clusters/backends/",
    "kube/",
    "clusters/verdicts.py",
    "common/reconcile/",
    "common/outbound/",
    "common/webhooks/",
    "common/jobs/",
    "gateway/backends/",
    # Shared with machines and the client, which have no Django.
    "gpu_health/actions/",
    "gpu_health/evidence.py",
    "gpu_health/evidence_collection.py",
    "gpu_health/healing/",
    "gpu_health/incident_facts.py",
    "gpu_health/judge.py",
    "gpu_health/policy/",
    "gpu_health/reconcilers/",
    "gpu_health/services/admission.py",
    "gpu_health/signals/",
    "gpu_health/verification.py",
    "trust/formats/",
    "hubs/backends/",
    "identity/assertions.py",
    "identity/federation.py",
    "identity/openid.py",
    "identity/published.py",
    "identity/saml.py",
    "identity/scim/",
    "identity/reconcilers.py",
    "identity/services/acceptance.py",
    "identity/services/sign_on.py",
    "hubs/download.py",
    "hubs/export_result.py",
    "hubs/push.py",
    "hubs/reconcilers/",
    "hubs/retry.py",
    "hubs/slipway_export.py",
    "models_registry/importing/",
    "model_store/fetch_progress.py",
    "model_store/file_manifest.py",
    "model_store/paths.py",
    "models_registry/patterns.py",
    "models_registry/reconcilers/",
    "trust/signing/",
    "model_store/backends/",
    "model_store/reconcilers/",
    "model_store/upload_buffer.py",
)
UNSHOWN = (
    # Of these only whole sentences that are marked reach a person; what else they put together is kept in
    # rows, logged, or sent before there is a language.
    "accounts/reconcilers/",
    "clusters/reconcilers/",
    "common/live/",
    "common/management/",
    "common/templatetags/",
    "common/watchdog.py",
    "controlplane/bodies.py",
    "controlplane/health.py",
    # Raised in processes without Django as well.
    "hubs/errors.py",
    "model_store/errors.py",
    "models_registry/errors.py",
    "trust/errors.py",
)
NOT_YET: tuple[str, ...] = ()
"""Beginnings of paths whose strings are not all marked yet."""
