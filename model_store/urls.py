from django.urls import path

from model_store.views import quotas, store

# A plus sign begins no name of a model, a version or an alias.
urlpatterns = [
    path("settings/teams/<str:name>/storage/", quotas.storage_page, name="team-storage-page"),
    path("settings/teams/<str:name>/storage/+limit/", quotas.set_quota, name="set-quota"),
    path("models/+store/", store.store_page, name="store-page"),
    path("models/+store/teams/", quotas.store_teams, name="store-teams"),
    path("models/+store/kept/", store.store_kept, name="store-kept"),
    path("models/+store/collect/", store.collect, name="collect"),
    path("models/+store/check/", store.check, name="check-store"),
    path("models/+store/repair/<int:pk>/", store.repair, name="repair-blob"),
]
