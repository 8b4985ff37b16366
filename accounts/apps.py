from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from accounts import login
        from accounts.api import authentication  # noqa: F401  (registers how the schema shows it)

        login.connect()
