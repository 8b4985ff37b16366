"""What single sign-on adds to the whole."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.states import Right
from common.declared import AppManifest
from common.pages.badges import Badge, Badges
from common.pages.search import SearchDestination
from common.pages.shell import Tab
from common.pages.subjects import Subject
from common.resealing import SealedColumn
from identity import login
from identity.inbox import BREAK_GLASS_USES
from identity.models import Identity
from identity.pruning import RULES
from identity.reconcilers import ProviderCheckReconciler
from identity.services import sign_on

PAGE = "/settings/sign-on/"
SUBJECTS = (
    Subject("identity.grouprule", _("Group rule"), PAGE, title=_("Group rule %(pattern)s")),
    Subject("identity.provisionedgroup", _("Group"), PAGE, title=_("Group %(name)s")),
    Subject(
        "identity.federatedcredential",
        _("Federated credential"),
        "/settings/service-accounts/{account__username}/",
        title=_("Federated credential %(name)s"),
    ),
    Subject(
        "identity.providercheck",
        _("Check of the identity provider"),
        PAGE,
        title=_("Check of the identity provider"),
    ),
)
BADGES: Mapping[str, Badges] = {
    "sign_in": {"break_glass": Badge(_("Break-glass sign-in"), "warn", "alert-triangle")},
}
MANIFEST = AppManifest(
    sealed=(SealedColumn(Identity, "sealed_refresh_token", sign_on.PURPOSE),),
    reconcilers=(ProviderCheckReconciler(),),
    subjects=SUBJECTS,
    badges=BADGES,
    inbox=(BREAK_GLASS_USES,),
    tabs=(
        Tab(
            under="/settings/",
            name=_("Single sign-on"),
            path=PAGE,
            icon="login",
            rank=45,
            right=Right.PEOPLE_ADMIN,
            is_for_admins=True,
        ),
        Tab(
            under="/settings/",
            name=_("Service accounts"),
            path="/settings/service-accounts/",
            icon="robot",
            rank=47,
        ),
    ),
    destinations=(
        SearchDestination(
            title=_("Single sign-on"),
            url=PAGE,
            icon="login",
            words="sso oidc groups rules roles provider",
            right=Right.PEOPLE_ADMIN,
            is_for_admins=True,
        ),
    ),
    nouns={
        "accounts": lambda count: ngettext("account", "accounts", count),
        "credentials": lambda count: ngettext("credential", "credentials", count),
        "rules": lambda count: ngettext("rule", "rules", count),
    },
    pruning=RULES,
    hooks=(login.connect,),
)
