from django.apps import AppConfig


class ReleasesConfig(AppConfig):
    name = "releases"

    def ready(self) -> None:
        from common import live
        from common.pages import search
        from common.reconcile import kernel
        from models_registry.onward import register_onward
        from models_registry.uses import register_fallback_check, register_use_check
        from releases import consumers, finders
        from releases.onward import ReleaseOnward
        from releases.reconcilers import ReleaseReconciler
        from releases.selectors import candidates, stable_versions, ways_back

        kernel.register(ReleaseReconciler())
        register_use_check(stable_versions)
        register_use_check(candidates)
        register_fallback_check(ways_back)
        register_onward(ReleaseOnward())
        for topic in (consumers.ReleaseTopic(), consumers.ServiceTopic(), consumers.ReleasesTopic()):
            live.register(topic)
        search.offer("Services", finders.find_services)
        search.offer("Releases", finders.find_releases)
