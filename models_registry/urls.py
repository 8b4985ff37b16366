from django.urls import path

from common.pages import converters  # noqa: F401  (gives `<name:...>`)
from models_registry.views import (
    aliases,
    comparison,
    evaluations,
    exemptions,
    models,
    retention,
    uploads,
    versions,
)

# A plus sign begins no name of a model, a version or an alias.
urlpatterns = [
    path("settings/teams/<str:name>/code/", exemptions.exemption_page, name="code-exemptions"),
    path("settings/teams/<str:name>/code/+new/", exemptions.exempt, name="exempt-code"),
    path("settings/teams/<str:name>/code/<int:pk>/+end/", exemptions.end, name="end-exemption"),
    path("models/", models.model_list, name="models"),
    path("models/+new/", models.new_model, name="new-model"),
    path("models/+versions/", models.version_search, name="version-search"),
    path("models/<name:name>/", models.model_page, name="model"),
    path("models/<name:name>/+aliases/", aliases.alias_page, name="model-aliases"),
    path("models/<name:name>/+aliases/move/", aliases.move_alias, name="move-alias"),
    path("models/<name:name>/+aliases/delete/<str:alias>/", aliases.delete_alias, name="delete-alias"),
    path("models/<name:name>/+card/", models.model_card, name="model-card"),
    path("models/<name:name>/+compare/", comparison.compare, name="compare-versions"),
    path("models/<name:name>/+import/", versions.import_version, name="import-version"),
    path("models/<name:name>/+retention/", retention.retention_page, name="model-retention"),
    path("models/<name:name>/+retention/<str:wish>/", retention.act, name="retention-act"),
    path("models/<name:name>/+uploads/<int:pk>/+cancel/", uploads.cancel, name="cancel-upload"),
    path("models/<name:name>/+settings/", models.model_settings, name="model-settings"),
    path("models/<name:name>/+delete/", models.delete_model, name="delete-model"),
    path("models/<name:name>/<name:version>/", versions.version_page, name="version"),
    path("models/<name:name>/<name:version>/+evaluations/", evaluations.evaluate, name="evaluate-version"),
    path("models/<name:name>/<name:version>/+tags/", versions.tag_version, name="tag-version"),
    path("models/<name:name>/<name:version>/+<str:wish>/", versions.act, name="version-act"),
]
