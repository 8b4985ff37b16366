from django.urls import path

from images import views

# A plus sign begins no name of an image.
urlpatterns = [
    path("images/", views.image_list, name="images"),
    path("images/+new/", views.new_image, name="new-image"),
    path("images/+refresh/", views.refresh, name="refresh-images"),
    path("images/+fit/", views.fit, name="image-fit"),
    path("images/<str:name>/", views.image_page, name="image"),
    path("images/<str:name>/+settings/", views.image_settings, name="image-settings"),
    path("images/<str:name>/+deprecate/", views.deprecate, name="deprecate-image"),
    path("images/<str:name>/+reinstate/", views.reinstate, name="reinstate-image"),
    path(
        "images/<str:name>/+pull-failures/<str:cluster>/",
        views.clear_pull_failure,
        name="clear-pull-failure",
    ),
    path("images/<str:name>/+trials/", views.note_trial, name="note-trial"),
]
