from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ReleasesConfig(AppConfig):
    name = "releases"

    def ready(self) -> None:
        from clusters.notes import register_deployment_notes
        from common import live
        from common.pages import search, subjects
        from common.reconcile import kernel, pruning
        from models_registry.history import register_history
        from models_registry.onward import register_onward
        from models_registry.uses import register_fallback_check, register_uses
        from releases import consumers, finders
        from releases.bake import warm_deployments
        from releases.history import releases_of
        from releases.onward import ReleaseOnward
        from releases.pruning import RULES
        from releases.reconcilers import ReleaseReconciler
        from releases.selectors import CANDIDATES, STABLE_VERSIONS, ways_back

        kernel.register(ReleaseReconciler())
        pruning.offer(*RULES)
        register_uses(STABLE_VERSIONS)
        register_uses(CANDIDATES)
        register_fallback_check(ways_back)
        register_onward(ReleaseOnward())
        register_history(releases_of)
        register_deployment_notes(warm_deployments)
        for topic in (consumers.ReleaseTopic(), consumers.ServiceTopic(), consumers.ReleasesTopic()):
            live.register(topic)
        subjects.offer(
            "releases.release",
            _("Release"),
            "/releases/{pk}/",
            title=_("%(version__model__name)s:%(version__name)s to %(service__name)s"),
        )
        subjects.offer("releases.service", _("Service"), "/services/{name}/")
        subjects.offer("releases.plan", _("Release plan"), "/settings/plans/{team__name}/{name}/")
        search.offer("Services", finders.find_services)
        search.offer("Releases", finders.find_releases)
