from django.urls import path, re_path

from capacity.pages import PAGES
from capacity.views import cards, policies, workloads
from capacity.views import pools as views

urlpatterns = [
    *PAGES.urlpatterns,
    path("workloads/<int:pk>/log/", workloads.workload_log_file, name="workload-log-file"),
    path("capacity/", views.overview, name="capacity"),
    path("capacity/+new/", views.new_pool, name="new-pool"),
    re_path(r"^capacity/\+(?P<deed>stop|resume)/$", views.switch, name="capacity-switch"),
    path("capacity/<int:pk>/", views.pool_page, name="pool"),
    path("capacity/<int:pk>/fragments/", views.fragments_page, name="pool-fragments"),
    path("capacity/<int:pk>/cards/", cards.cards_page, name="pool-cards"),
    path("capacity/layouts/<int:pk>/+undo/", cards.undo_layout, name="undo-layout"),
    path("capacity/<int:pk>/+remove/", views.remove_pool, name="remove-pool"),
    path("capacity/<int:pk>/<slug:service>/+remove/", views.remove_member, name="remove-member"),
    path("capacity/<int:pk>/<slug:service>/policy/", policies.policy_page, name="capacity-policy"),
    path("capacity/<int:pk>/<slug:service>/+ungroup/", views.remove_groups, name="remove-groups"),
    path("capacity/<int:pk>/<slug:service>/+unqueue/", views.remove_queue, name="remove-queue"),
    path("capacity/plans/<int:pk>/", views.plan_page, name="capacity-plan"),
    path("capacity/plans/<int:pk>/+<str:deed>/", views.decide, name="decide-capacity-plan"),
]
