"""LoRA adapters of a service, loaded and unloaded while its workers run."""

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from clusters.services.deployments import set_adapters
from common import audit, events
from common.actor import Actor
from common.errors import Invalid, Missing
from common.reconcile import kernel
from models_registry.exemptions import check_code
from models_registry.files import manifest_of
from models_registry.models import Version
from models_registry.selectors import versions
from models_registry.signature_verification import check_signature
from models_registry.states import VersionState
from releases.errors import NotPossibleNow
from releases.events import ServiceChanged
from releases.models import Service, ServiceAdapter
from releases.selectors.adapters import wanted_adapters, why_no_adapters
from serving.protocol import MAX_ADAPTERS

FILES = frozenset({"adapter_config.json", "adapter_model.safetensors"})
"""Of a version in PEFT's layout."""


def load_adapter(
    service: Service, *, actor: Actor, name: str, version: Version, reason: str = ""
) -> ServiceAdapter:
    """Have the workers of all versions of the service load it, now and after every restart; requests ask for
    it as their `model`. Under a name that is taken, the version replaces the one before.

    Raises NotAllowed, Invalid by field, NotPossibleNow where its workers load none, CodeNotAllowed,
    SignatureNotTrusted.
    """
    require(actor, Right.RELEASES_START, service.team, service=service.name)
    if why := why_no_adapters(service):
        raise NotPossibleNow(why)
    _check_version(version)
    with transaction.atomic():
        # Locks the row, so that two at once do not each leave out the other's.
        Service.objects.select_for_update().get(pk=service.pk)
        row = ServiceAdapter.objects.filter(service=service, name=name).first()
        row = row or ServiceAdapter(service=service, name=name)
        row.version, row.version_label = version, str(version)
        row.loaded_by, row.loaded_at = actor.name, kernel.clock()
        _check_name(row)
        row.save()
        _carry_out(row, actor=actor, action="load", reason=reason)
    return row


def unload_adapter(service: Service, *, actor: Actor, name: str, reason: str = "") -> None:
    """Have the workers unload it; requests that run are answered to their end. Raises NotAllowed, Missing."""
    require(actor, Right.RELEASES_START, service.team, service=service.name)
    with transaction.atomic():
        Service.objects.select_for_update().get(pk=service.pk)
        row = ServiceAdapter.objects.filter(service=service, name=name).first()
        if row is None:
            told = {"service": service.name, "adapter": name}
            raise Missing(_("%(service)s has no adapter %(adapter)s.") % told)
        row.delete()
        _carry_out(row, actor=actor, action="unload", reason=reason)


def _check_version(version: Version) -> None:
    if version.state != VersionState.READY or versions.damages(version):
        raise Invalid(fields={"version": [_("Only a ready, undamaged version can be loaded.")]})
    if lacking := sorted(FILES - {file.path for file in manifest_of(version).files}):
        words = _("%(version)s is no LoRA adapter in PEFT's layout: it has no %(file)s.")
        raise Invalid(fields={"version": [words % {"version": version, "file": lacking[0]}]})
    check_code(version)
    check_signature(version)


def _check_name(row: ServiceAdapter) -> None:
    try:
        row.clean_fields(exclude=["service", "version", "version_label"])
    except ValidationError as error:
        raise Invalid(fields=error.message_dict) from None
    if row.name in (row.service.name, row.service.model.name):
        raise Invalid(fields={"name": [_("The model itself answers to this name.")]})
    others = ServiceAdapter.objects.filter(service=row.service).exclude(pk=row.pk).count()
    if others >= MAX_ADAPTERS:
        most = _("A service has at most %(most)s adapters.") % {"most": MAX_ADAPTERS}
        raise Invalid(fields={"name": [most]})


def _carry_out(row: ServiceAdapter, *, actor: Actor, action: str, reason: str) -> None:
    set_adapters(row.service.name, wanted_adapters(row.service))
    audit.record(
        actor,
        f"service.adapter.{action}",
        subject=row.service,
        team_id=row.service.team_id,
        reason=reason,
        detail={"adapter": row.name, "version": row.version_label},
    )
    events.publish(ServiceChanged(row.service_id))
