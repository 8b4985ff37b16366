from django.apps import AppConfig


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    verbose_name = "Slipway"

    def ready(self) -> None:
        from common import live
        from common.pages import search
        from controlplane import celery, wiring  # noqa: F401  # makes the Celery app the one that tasks bind to
        from controlplane.changes import ChangesTopic
        from controlplane.finder import find_pages
        from controlplane.home.consumers import HomeTopic

        wiring.connect()
        live.register(HomeTopic())
        live.register(ChangesTopic())
        search.offer("Pages and commands", find_pages)
