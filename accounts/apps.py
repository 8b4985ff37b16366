from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from accounts import login
        from accounts.api import authentication  # noqa: F401  (registers how the schema shows it)
        from accounts.reconcilers import EndpointReconciler, EventReconciler
        from common.reconcile import kernel

        login.connect()
        kernel.register(EventReconciler())
        kernel.register(EndpointReconciler())
