"""What apps add to the whole: each says it in one object, `<app>/manifest.py`, and hands it over at start.

`common`, Home and the composition root show what is declared and know no app by name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.metrics_core import Metric

from common import choices, configuration, events, resealing
from common.alert_checks import AlertCheck
from common.alert_rules import AlertRule
from common.choices import ChoiceSet
from common.configuration import ConfigurationKind
from common.events import Subscription
from common.health import HealthProbe
from common.languages import Text
from common.live.topics import Topic
from common.live.topics import register as register_topic
from common.pages import badges, nouns, search, shell, subjects
from common.pages.badges import Badges
from common.pages.cards import HomeCard
from common.pages.inbox import InboxSource
from common.pages.nouns import Counted
from common.pages.search import SearchDestination, SearchSource
from common.pages.shell import NavItem, Tab
from common.pages.subjects import Subject
from common.reconcile import Reconciler, kernel, pruning
from common.reconcile.pruning import PruningRule
from common.resealing import SealedColumn
from common.webhooks import catalogue
from common.webhooks.catalogue import WebhookEventType


@dataclass(frozen=True, kw_only=True)
class AppManifest:
    """Words are lazy: each reader has a language."""

    reconcilers: Sequence[Reconciler[Any]] = ()
    subjects: Sequence[Subject] = ()
    """What its rows are called, where their pages are, whose badges their states have."""
    choices: Sequence[ChoiceSet] = ()
    """Sets of choices that its rows and documents have: how pages and the schema name them."""
    badges: Mapping[str, Badges] = field(default_factory=dict)
    """By the name that templates give to `{% state %}`, then by state."""
    inbox: Sequence[InboxSource] = ()
    """What waits for a person. What is stuck or failing is there because it has a reconciler."""
    cards: Sequence[HomeCard] = ()
    """Sections of Home."""
    nav: Sequence[NavItem] = ()
    notices: Sequence[str] = ()
    """Addresses of fragments that stand above every page's content while there is something to say; empty
    ones show nothing. Asked for when the page is there, so that no page waits for them."""
    tabs: Sequence[Tab] = ()
    """Over pages of another app's nav item."""
    search: Sequence[SearchSource] = ()
    destinations: Sequence[SearchDestination] = ()
    """Its pages and commands, for the search box."""
    nouns: Mapping[str, Counted] = field(default_factory=dict)
    """What its lists hold, by the name that templates give to `{% pages %}`."""
    topics: Sequence[Topic] = ()
    subscriptions: Sequence[Subscription[Any]] = ()
    """Run after the commit, in the process that publishes; may be lost with it."""
    witnesses: Sequence[Subscription[Any]] = ()
    """Run inside the publisher's transaction: both are committed, or neither is."""
    webhook_events: Sequence[WebhookEventType] = ()
    webhook_heading: Text = ""
    """What they stand under where one chooses among all; several apps may share one."""
    metrics: Sequence[Callable[[], Iterable[Metric]]] = ()
    """Read anew at each scrape. May query; not asked while the database is down."""
    alert_rules: Sequence[AlertRule] = ()
    """For Prometheus."""
    alert_checks: Sequence[AlertCheck] = ()
    """Made by the control plane itself."""
    probes: Sequence[HealthProbe] = ()
    """What `/readyz` and Home ask of it."""
    pruning: Sequence[PruningRule] = ()
    configuration: Sequence[ConfigurationKind] = ()
    """Objects that teams may keep as files, in the order in which they are made."""
    sealed: Sequence[SealedColumn] = ()
    """Columns that `common.sealed` protects: all of them, or a change of the secret key loses some."""
    hooks: Sequence[Callable[[], None]] = ()
    """Called once: what it answers to apps below, which ask without knowing it."""


_manifests: list[AppManifest] = []


def declare(manifest: AppManifest) -> None:
    """Called once for each app, at start. Raises ValueError when it names what another has named already."""
    for reconciler in manifest.reconcilers:
        kernel.register(reconciler)
    for subject in manifest.subjects:
        subjects.offer(subject)
    for one in manifest.choices:
        choices.offer(one)
    for name, states in manifest.badges.items():
        badges.offer(name, states)
    for item in manifest.nav:
        shell.offer(item)
    for tab in manifest.tabs:
        shell.offer_tab(tab)
    for address in manifest.notices:
        shell.offer_notice(address)
    for found in manifest.search:
        search.offer(found)
    for destination in manifest.destinations:
        search.offer_destination(destination)
    for name, counted in manifest.nouns.items():
        nouns.offer(name, counted)
    for topic in manifest.topics:
        register_topic(topic)
    for edge in manifest.subscriptions:
        events.subscribe(edge.to, edge.subscriber)
    for edge in manifest.witnesses:
        events.witness(edge.to, edge.subscriber)
    for event in manifest.webhook_events:
        catalogue.offer(event, manifest.webhook_heading)
    pruning.offer(*manifest.pruning)
    resealing.offer(*manifest.sealed)
    for kind in manifest.configuration:
        configuration.offer(kind)
    for hook in manifest.hooks:
        hook()
    _manifests.append(manifest)


def manifests() -> tuple[AppManifest, ...]:
    """Return the manifests in the order of the apps."""
    return tuple(_manifests)
