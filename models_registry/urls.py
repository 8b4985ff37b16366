from django.urls import path

from models_registry.views import aliases, hubs, models, notices, retention, storage, versions

# A plus sign begins no name of a model, a version or an alias.
urlpatterns = [
    path("hub-notices/<int:pk>/", notices.hub_notice, name="hub-notice"),
    path("models/", models.model_list, name="models"),
    path("models/+new/", models.new_model, name="new-model"),
    path("models/+store/", storage.store_page, name="store-page"),
    path("models/+store/collect/", storage.collect, name="collect"),
    path("models/+store/check/", storage.check, name="check-store"),
    path("models/+store/repair/<int:pk>/", storage.repair, name="repair-blob"),
    path("models/<str:name>/", models.model_page, name="model"),
    path("models/<str:name>/+aliases/", aliases.alias_page, name="model-aliases"),
    path("models/<str:name>/+aliases/move/", aliases.move_alias, name="move-alias"),
    path("models/<str:name>/+aliases/delete/<str:alias>/", aliases.delete_alias, name="delete-alias"),
    path("models/<str:name>/+card/", models.model_card, name="model-card"),
    path("models/<str:name>/+compare/", models.compare, name="compare-versions"),
    path("models/<str:name>/+hub/", hubs.hub_page, name="model-hub"),
    path("models/<str:name>/+hub/+new/", hubs.new_source, name="new-hub-source"),
    path("models/<str:name>/+hub/<int:pk>/", hubs.source_page, name="hub-source"),
    path("models/<str:name>/+hub/<int:pk>/+sync/", hubs.start_sync, name="start-hub-sync"),
    path("models/<str:name>/+hub/<int:pk>/+secret/", hubs.new_secret, name="hub-notice-secret"),
    path("models/<str:name>/+hub/<int:pk>/+delete/", hubs.delete_source, name="delete-hub-source"),
    path("models/<str:name>/+syncs/<int:pk>/", hubs.sync_page, name="hub-sync"),
    path("models/<str:name>/+syncs/<int:pk>/+<str:wish>/", hubs.act, name="hub-sync-act"),
    path("models/<str:name>/+import/", versions.import_version, name="import-version"),
    path("models/<str:name>/+retention/", retention.retention_page, name="model-retention"),
    path("models/<str:name>/+retention/<str:wish>/", retention.act, name="retention-act"),
    path("models/<str:name>/+settings/", models.model_settings, name="model-settings"),
    path("models/<str:name>/+delete/", models.delete_model, name="delete-model"),
    path("models/<str:name>/<str:version>/", versions.version_page, name="version"),
    path("models/<str:name>/<str:version>/+tags/", versions.tag_version, name="tag-version"),
    path("models/<str:name>/<str:version>/+<str:wish>/", versions.act, name="version-act"),
]
