from django.urls import path

from hubs.views import exports, notices, sources, transfers

SYNC, EXPORT = {"kind": transfers.SYNC}, {"kind": transfers.EXPORT}

# A plus sign begins no name of a model, a version or an alias.
urlpatterns = [
    path("hub-notices/<int:pk>/", notices.hub_notice, name="hub-notice"),
    path("models/<str:name>/+hub/", sources.hub_page, name="model-hub"),
    path("models/<str:name>/+hub/+new/", sources.new_source, name="new-hub-source"),
    path("models/<str:name>/+hub/<int:pk>/", sources.source_page, name="hub-source"),
    path("models/<str:name>/+hub/<int:pk>/+sync/", sources.start_sync, name="start-hub-sync"),
    path("models/<str:name>/+hub/<int:pk>/+secret/", sources.new_secret, name="hub-notice-secret"),
    path("models/<str:name>/+hub/<int:pk>/+delete/", sources.delete_source, name="delete-hub-source"),
    path("models/<str:name>/+syncs/<int:pk>/", transfers.transfer_page, SYNC, name="hub-sync"),
    path("models/<str:name>/+syncs/<int:pk>/+<str:wish>/", transfers.act, SYNC, name="hub-sync-act"),
    path("models/<str:name>/+exports/", exports.export_list, name="model-exports"),
    path("models/<str:name>/+exports/<int:pk>/", transfers.transfer_page, EXPORT, name="export"),
    path("models/<str:name>/+exports/<int:pk>/+<str:wish>/", transfers.act, EXPORT, name="export-act"),
    path("models/<str:name>/<str:version>/+export/", exports.new_export, name="new-export"),
]
