from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ImagesConfig(AppConfig):
    name = "images"

    def ready(self) -> None:
        from common.pages import search, subjects
        from images.finder import find_images

        subjects.offer("images.runtimeimage", _("Image"), "/images/{name}/")
        search.offer("Images", find_images)
