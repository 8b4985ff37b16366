from django.apps import AppConfig


class ImagesConfig(AppConfig):
    name = "images"

    def ready(self) -> None:
        from common.pages import search
        from images.finder import find_images

        search.offer("Images", find_images)
