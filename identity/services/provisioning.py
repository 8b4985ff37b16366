"""People and groups as the identity provider writes them by SCIM."""

from collections.abc import Iterable
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.selectors import is_break_glass
from accounts.services import provisioned
from accounts.services.rights import require_everywhere
from accounts.states import AccountKind, Right
from common import clock
from common.actor import Actor
from common.audit import record
from common.errors import Conflict, Missing
from identity.models import Identity, ProvisionedGroup
from identity.scim.documents import GroupChange
from identity.services.sign_on import apply_rules, provider_id


def people() -> QuerySet[User]:
    """Find those whom the provider may see and change: people it has not deleted, without the break-glass
    account."""
    gone = Identity.objects.exclude(deleted_at=None).values("user")
    found = User.objects.filter(kind=AccountKind.PERSON).exclude(pk__in=gone)
    named = settings.SLIPWAY_BREAK_GLASS_ACCOUNT
    return found.exclude(username__iexact=named) if named else found


def people_by(attribute: str, value: str) -> QuerySet[User]:
    """`attribute`: `username` or `externalid`."""
    if attribute == "username":
        return people().filter(username__iexact=value)
    return people().filter(pk__in=Identity.objects.filter(external_id=value).values("user"))


def person(pk: str) -> User:
    """Raises Missing."""
    found = people().filter(pk=pk).first() if pk.isascii() and pk.isdecimal() and len(pk) < 19 else None
    if found is None:
        raise Missing(_("There is no such person."))
    return found


def external_id_of(user: User) -> str:
    found = Identity.objects.filter(user=user).values_list("external_id", flat=True).first()
    return found or ""


def create_person(*, actor: Actor, **given: Any) -> User:
    """Raises NotAllowed, ValidationError, Conflict when there is one of this name."""
    external_id = given.pop("external_id", "")
    given.pop("display_name", None)
    if is_break_glass(given["username"]):
        raise Conflict(_("There is a person named %(name)s already.") % {"name": given["username"]})
    with transaction.atomic():
        user = provisioned.create_person(actor=actor, **given)
        Identity.objects.create(user=user, provider=_provider(), external_id=external_id)
    return user


def change_person(*, actor: Actor, user: User, **changed: Any) -> User:
    """Deactivation ends sessions and tokens at once.

    Raises NotAllowed, ValidationError, Conflict, LastAdmin.
    """
    changed.pop("display_name", None)
    external_id = changed.pop("external_id", None)
    with transaction.atomic():
        provisioned.change_person(actor=actor, user=user, **changed)
        identity, _made = Identity.objects.get_or_create(user=user, defaults={"provider": _provider()})
        if external_id is not None and external_id != identity.external_id:
            Identity.objects.filter(pk=identity.pk).update(external_id=external_id)
        if not user.is_active:
            identity.sessions.all().delete()
    return user


def delete_person(*, actor: Actor, user: User) -> None:
    """Their account stays for the record, without a name that another could take over, a right or a token.

    Raises NotAllowed, LastAdmin.
    """
    with transaction.atomic():
        provisioned.retire(actor=actor, user=user)
        SocialAccount.objects.filter(user=user).delete()
        told = {"deleted_at": clock.now(), "sealed_refresh_token": "", "subject": "", "groups": []}
        Identity.objects.update_or_create(
            user=user, defaults={**told, "external_id": ""}, create_defaults={**told, "provider": _provider()}
        )
        for one in ProvisionedGroup.objects.filter(members=user):
            one.members.remove(user)


def group(pk: str) -> ProvisionedGroup:
    """Raises Missing."""
    found = (
        ProvisionedGroup.objects.filter(pk=pk).first()
        if pk.isascii() and pk.isdecimal() and len(pk) < 19
        else None
    )
    if found is None:
        raise Missing(_("There is no such group."))
    return found


def create_group(*, actor: Actor, change: GroupChange) -> ProvisionedGroup:
    """Raises NotAllowed, Conflict when there is one of this name, Missing for an unknown member."""
    require_everywhere(actor, Right.PEOPLE_PROVISION)
    made = ProvisionedGroup(name=change.name or "", external_id=change.external_id or "")
    made.clean_fields()
    try:
        with transaction.atomic():
            made.save(force_insert=True)
            record(actor, "group.create", subject=made)
            _set_members(actor, made, change)
    except IntegrityError:
        raise Conflict(_("There is a group named %(name)s already.") % {"name": made.name}) from None
    return made


def change_group(*, actor: Actor, group: ProvisionedGroup, change: GroupChange) -> None:
    """Group rules count for its members at once. Raises NotAllowed, Conflict, Missing, ValidationError."""
    require_everywhere(actor, Right.PEOPLE_PROVISION)
    renamed = change.name is not None and change.name != group.name
    group.name = change.name if change.name is not None else group.name
    group.external_id = change.external_id if change.external_id is not None else group.external_id
    group.clean_fields()
    try:
        with transaction.atomic():
            group.save(update_fields=["name", "external_id"])
            record(actor, "group.change", subject=group)
            _set_members(actor, group, change, everybody=renamed)
    except IntegrityError:
        raise Conflict(_("There is a group named %(name)s already.") % {"name": group.name}) from None


def delete_group(*, actor: Actor, group: ProvisionedGroup) -> None:
    """Raises NotAllowed."""
    require_everywhere(actor, Right.PEOPLE_PROVISION)
    with transaction.atomic():
        members = list(group.members.all())
        record(actor, "group.delete", subject=group)
        ProvisionedGroup.objects.filter(pk=group.pk).delete()
        _apply(actor, members)


def _set_members(
    actor: Actor, group: ProvisionedGroup, change: GroupChange, *, everybody: bool = False
) -> None:
    before = set(group.members.values_list("pk", flat=True))
    after = before if change.members is None else _known(change.members)
    after = (after | _known(change.add)) - {int(one) for one in change.remove if one.isdecimal()}
    if after != before:
        group.members.set(after)
    touched = before | after if everybody else before ^ after
    _apply(actor, User.objects.filter(pk__in=touched))


def _known(ids: Iterable[str]) -> set[int]:
    wanted = set(ids)
    numbers = {int(one) for one in wanted if one.isascii() and one.isdecimal() and len(one) < 19}
    found = set(people().filter(pk__in=numbers).values_list("pk", flat=True))
    if len(found) != len(wanted):
        raise Missing(_("A member is not known here. Provision the person first."))
    return found


def _apply(actor: Actor, users: Iterable[User]) -> None:
    for user in users:
        identity, _made = Identity.objects.get_or_create(user=user, defaults={"provider": _provider()})
        apply_rules(identity, actor=actor, reason="Groups provisioned by SCIM")


def _provider() -> str:
    return provider_id() or "sso"


def linked_person(*, provider: str, claims: Any) -> User | None:
    """The person whom the provider provisioned and who signs in for the first time.

    Known by the attribute and claim of SLIPWAY_SCIM_LINK. Never an account with a password, nor one that has
    signed in before: no claim leads into what a person has already.
    """
    attribute, _equals, claim = settings.SLIPWAY_SCIM_LINK.partition("=")
    told = claims.get(claim)
    if not isinstance(told, str) or not told:
        return None
    wanted = Q(external_id=told) if attribute == "externalId" else Q(user__username__iexact=told)
    waiting = Identity.objects.filter(wanted, provider=provider, subject="", deleted_at=None)
    found = list(waiting.select_related("user")[:2])
    if len(found) != 1:
        return None
    user = found[0].user
    has_account = SocialAccount.objects.filter(user=user).exists()
    return None if user.has_usable_password() or has_account or is_break_glass(user.username) else user
