from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ModelsRegistryConfig(AppConfig):
    name = "models_registry"
    verbose_name = "Models"

    def ready(self) -> None:
        from common.pages import search, subjects
        from common.reconcile import kernel, pruning
        from models_registry.finder import find_models
        from models_registry.hub_panels import export_panel, sync_panel
        from models_registry.hub_sources import Repositories
        from models_registry.panels import register_panel
        from models_registry.pruning import HUB_RULES, RULES, STORE_RULES
        from models_registry.reconcilers.checks import CheckReconciler
        from models_registry.reconcilers.collections import CollectionReconciler
        from models_registry.reconcilers.exports import ExportReconciler
        from models_registry.reconcilers.findings import FindingReconciler
        from models_registry.reconcilers.hubs import HubSourceReconciler, HubSyncReconciler
        from models_registry.reconcilers.keeper import StoreKeeperReconciler
        from models_registry.reconcilers.retention import RetentionReconciler
        from models_registry.reconcilers.uploads import UploadReconciler
        from models_registry.reconcilers.versions import VersionReconciler
        from models_registry.references import register_references
        from models_registry.sources import register_source_kind
        from models_registry.stored import UPLOADS, VERSIONS
        from models_registry.stored_exports import EXPORTS

        register_source_kind(Repositories())
        register_panel(sync_panel)
        register_panel(export_panel)
        for references in (VERSIONS, UPLOADS, EXPORTS):
            register_references(references)
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
        pruning.offer(*RULES, *HUB_RULES, *STORE_RULES)
        search.offer("Models", find_models)
        subjects.offer("models_registry.model", _("Model"), "/models/{name}/")
        subjects.offer("models_registry.version", _("Version"), "/models/{model__name}/{name}/")
        for label, noun, title, address in (
            (
                "hubsync",
                _("Sync"),
                _("Sync of %(source__repo_id)s@%(source__ref)s"),
                "/models/{source__model__name}/+syncs/{pk}/",
            ),
            (
                "export",
                _("Export"),
                _("Export of %(version__model__name)s:%(version__name)s"),
                "/models/{version__model__name}/+exports/{pk}/",
            ),
            (
                "retentionrule",
                _("Retention rule"),
                _("Retention rule of %(model__name)s"),
                "/models/{model__name}/+retention/",
            ),
            ("upload", _("Upload"), _("Upload %(pk)s to %(model__name)s"), "/models/{model__name}/"),
            ("storekeeper", _("Store maintenance"), _("Store maintenance"), "/models/+store/"),
            ("collection", _("Garbage collection"), _("Garbage collection %(pk)s"), "/models/+store/"),
            ("check", _("Integrity check"), _("Integrity check %(pk)s"), "/models/+store/"),
            ("finding", _("Damaged file"), _("Damaged file %(sha256)s"), "/models/+store/"),
        ):
            subjects.offer(f"models_registry.{label}", noun, address, title=title)
        subjects.offer("models_registry.alias", _("Alias"), "/models/{model__name}/+aliases/")
        subjects.offer("models_registry.hubsource", _("Hub source"), "/models/{model__name}/+hub/{pk}/")
        subjects.offer(
            "models_registry.trustedkey", _("Trusted key"), "/settings/teams/{team__name}/signatures/"
        )
