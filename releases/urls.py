from django.urls import path

from releases.views import adapters, plans, pod_patches, policies, releases, services

# A plus sign is in no name of a service or a plan.
urlpatterns = [
    path("releases/", releases.release_list, name="releases"),
    path("releases/<int:pk>/", releases.release_page, name="release"),
    path("releases/<int:pk>/<slug:wish>/", releases.act, name="release-act"),
    path("services/", services.service_list, name="services"),
    path("services/+new/", services.new_service, name="new-service"),
    path("services/<str:name>/", services.service_page, name="service"),
    path("services/<str:name>/live/", services.live_page, name="service-live"),
    path("services/<str:name>/settings/", services.service_settings, name="service-settings"),
    path("services/<str:name>/release-header/", services.release_header, name="set-release-header"),
    path("services/<str:name>/resume-automation/", services.resume, name="resume-automation"),
    path("services/<str:name>/adapters/", adapters.adapters_page, name="service-adapters"),
    path("services/<str:name>/adapters/<str:adapter>/unload/", adapters.unload, name="unload-adapter"),
    path("services/<str:name>/policy/", policies.service_policy, name="service-policy"),
    path("services/<str:name>/pods/", pod_patches.pods_page, name="service-pods"),
    path("services/<str:name>/pods/<int:pk>/approve/", pod_patches.decide_patch, {"decision": "approve"}),
    path("services/<str:name>/pods/<int:pk>/reject/", pod_patches.decide_patch, {"decision": "reject"}),
    path("services/<str:name>/pods/<int:pk>/withdraw/", pod_patches.decide_patch, {"decision": "withdraw"}),
    path("services/<str:name>/release/", services.release_version, name="release-version"),
    path("settings/plans/", plans.plan_list, name="plans"),
    path("settings/plans/+new/", plans.new_plan, name="new-plan"),
    path("settings/plans/+policy/<str:team>/", policies.team_policy, name="team-policy"),
    path("settings/plans/<slug:name>/", plans.plan_page, name="plan"),
    path("settings/plans/<slug:team>/<slug:name>/", plans.plan_page, name="team-plan"),
    path("settings/plans/<slug:team>/<slug:name>/edit/", plans.edit_plan, name="edit-plan"),
    path("settings/plans/<slug:team>/<slug:name>/delete/", plans.delete_plan, name="delete-plan"),
]
