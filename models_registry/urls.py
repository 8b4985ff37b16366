from django.urls import path

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
    path("models/<str:name>/", models.model_page, name="model"),
    path("models/<str:name>/+aliases/", aliases.alias_page, name="model-aliases"),
    path("models/<str:name>/+aliases/move/", aliases.move_alias, name="move-alias"),
    path("models/<str:name>/+aliases/delete/<str:alias>/", aliases.delete_alias, name="delete-alias"),
    path("models/<str:name>/+card/", models.model_card, name="model-card"),
    path("models/<str:name>/+compare/", comparison.compare, name="compare-versions"),
    path("models/<str:name>/+import/", versions.import_version, name="import-version"),
    path("models/<str:name>/+retention/", retention.retention_page, name="model-retention"),
    path("models/<str:name>/+retention/<str:wish>/", retention.act, name="retention-act"),
    path("models/<str:name>/+uploads/<int:pk>/+cancel/", uploads.cancel, name="cancel-upload"),
    path("models/<str:name>/+settings/", models.model_settings, name="model-settings"),
    path("models/<str:name>/+delete/", models.delete_model, name="delete-model"),
    path("models/<str:name>/<str:version>/", versions.version_page, name="version"),
    path("models/<str:name>/<str:version>/+evaluations/", evaluations.evaluate, name="evaluate-version"),
    path("models/<str:name>/<str:version>/+tags/", versions.tag_version, name="tag-version"),
    path("models/<str:name>/<str:version>/+<str:wish>/", versions.act, name="version-act"),
]
