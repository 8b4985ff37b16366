"""What the search box finds of the console itself: its pages, and what can be begun from anywhere."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.actors import of_user
from accounts.models import User
from accounts.selectors import may, may_everywhere
from accounts.states import Right
from common.pages.search import Hit, Person


@dataclass(frozen=True, slots=True)
class Entry:
    title: str | Promise
    url: str
    icon: str
    words: str = ""
    """By what else it is looked for, in lower case."""
    right: Right | None = None
    """Needed in some team; None: everybody's."""
    is_command: bool = False
    is_for_admins: bool = False
    """Needs the right in the whole installation."""


COMMANDS = (
    Entry(gettext_lazy("New model"), "/models/+new/", "box", "create add", Right.MODELS_WRITE, True),
    Entry(
        gettext_lazy("New service"),
        "/services/+new/",
        "route",
        "create add deploy",
        Right.SERVICES_WRITE,
        True,
    ),
    Entry(
        gettext_lazy("New image"),
        "/images/+new/",
        "container",
        "create add runtime",
        Right.SERVICES_WRITE,
        True,
    ),
    Entry(
        gettext_lazy("Find a fitting image"), "/images/+fit/", "puzzle", "compatibility gpu cuda", None, True
    ),
    Entry(
        gettext_lazy("New release plan"),
        "/settings/plans/+new/",
        "list-check",
        "create add canary strategy",
        Right.SERVICES_WRITE,
        True,
    ),
    Entry(gettext_lazy("Create API token"), "/settings/tokens/+new/", "key", "new ci secret", None, True),
    Entry(
        gettext_lazy("New webhook"),
        "/settings/webhooks/+new/",
        "webhook",
        "create add notify",
        Right.WEBHOOKS_WRITE,
        True,
    ),
    Entry(
        gettext_lazy("New person"), "/settings/people/+new/", "user-plus", "create add user", None, True, True
    ),
    Entry(gettext_lazy("New team"), "/settings/teams/+new/", "users", "create add", None, True, True),
)
PAGES = (
    Entry(gettext_lazy("Home"), "/", "home", "inbox attention approvals status"),
    Entry(gettext_lazy("Models"), "/models/", "box", "registry versions"),
    Entry(
        gettext_lazy("Store"),
        "/models/+store/",
        "database",
        "disk garbage collection integrity",
        None,
        False,
        True,
    ),
    Entry(gettext_lazy("Services"), "/services/", "route", "endpoints gateway"),
    Entry(gettext_lazy("Releases"), "/releases/", "rocket", "canary rollback"),
    Entry(gettext_lazy("Images"), "/images/", "container", "runtime"),
    Entry(gettext_lazy("Fleet"), "/fleet/", "server-2", "machines nodes gpus busy"),
    Entry(gettext_lazy("Workers"), "/fleet/workers/", "cpu", "replicas"),
    Entry(gettext_lazy("Deployments"), "/fleet/deployments/", "stack-2", "workers"),
    Entry(gettext_lazy("Audit"), "/audit/", "history", "log record", Right.AUDIT_READ),
    Entry(gettext_lazy("Account"), "/settings/account/", "user", "password language time zone profile"),
    Entry(gettext_lazy("API tokens"), "/settings/tokens/", "key", "scopes ci"),
    Entry(gettext_lazy("People"), "/settings/people/", "users", "users accounts"),
    Entry(gettext_lazy("Teams"), "/settings/teams/", "users", "members roles"),
    Entry(
        gettext_lazy("Webhooks"), "/settings/webhooks/", "webhook", "deliveries events", Right.WEBHOOKS_WRITE
    ),
    Entry(gettext_lazy("Release plans"), "/settings/plans/", "list-check", "strategies canary"),
    Entry(gettext_lazy("API reference"), "/api/docs/", "braces", "rest openapi schema documentation"),
)


def find_pages(person: Person, text: str, limit: int) -> Iterator[Hit]:
    """Commands before pages, those whose title begins with the text before the others."""
    if not isinstance(person, User):
        return
    wanted = text.casefold().split()
    found = [one for one in (*COMMANDS, *PAGES) if _is_meant(one, wanted) and _may_open(person, one)]
    found.sort(key=lambda one: not str(one.title).casefold().startswith(text.casefold()))
    for one in found[:limit]:
        yield Hit(str(one.title), one.url, one.icon, _("Command") if one.is_command else _("Page"))


def _is_meant(entry: Entry, wanted: list[str]) -> bool:
    told = f"{entry.title} {entry.words}".casefold().split()
    return all(any(word.startswith(part) for word in told) for part in wanted)


def _may_open(person: User, entry: Entry) -> bool:
    actor = of_user(person)
    if entry.is_for_admins:
        return may_everywhere(actor, entry.right or Right.PEOPLE_ADMIN)
    return entry.right is None or may(actor, entry.right)
