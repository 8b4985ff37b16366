from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ModelsRegistryConfig(AppConfig):
    name = "models_registry"
    verbose_name = "Models"

    def ready(self) -> None:
        from common.pages import search, subjects
        from common.reconcile import kernel, pruning
        from models_registry.finder import find_models
        from models_registry.pruning import RULES
        from models_registry.reconcilers.checks import CheckReconciler
        from models_registry.reconcilers.collections import CollectionReconciler
        from models_registry.reconcilers.exports import ExportReconciler
        from models_registry.reconcilers.findings import FindingReconciler
        from models_registry.reconcilers.hubs import HubSourceReconciler, HubSyncReconciler
        from models_registry.reconcilers.keeper import StoreKeeperReconciler
        from models_registry.reconcilers.retention import RetentionReconciler
        from models_registry.reconcilers.uploads import UploadReconciler
        from models_registry.reconcilers.versions import VersionReconciler

        kernel.register(VersionReconciler())
        kernel.register(HubSourceReconciler())
        kernel.register(HubSyncReconciler())
        kernel.register(ExportReconciler())
        kernel.register(RetentionReconciler())
        kernel.register(StoreKeeperReconciler())
        kernel.register(CollectionReconciler())
        kernel.register(CheckReconciler())
        kernel.register(FindingReconciler())
        kernel.register(UploadReconciler())
        pruning.offer(*RULES)
        search.offer("Models", find_models)
        subjects.offer("models_registry.model", _("Model"), "/models/{name}/")
        subjects.offer("models_registry.version", _("Version"), "/models/{model__name}/{name}/")
        subjects.offer("models_registry.alias", _("Alias"), "/models/{model__name}/+aliases/")
        subjects.offer("models_registry.hubsource", _("Hub source"), "/models/{model__name}/+hub/{pk}/")
        subjects.offer(
            "models_registry.trustedkey", _("Trusted key"), "/settings/teams/{team__name}/signatures/"
        )
