from django.apps import AppConfig


class NextRelease(AppConfig):
    name = "tests.production.next_release"

    def ready(self) -> None:
        from tests.production.next_release import announce  # noqa: F401  (its kind of step is known then)
