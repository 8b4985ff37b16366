"""How sources on hubs and their syncs advance: when to look, which commit it is, what became of it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from accounts.states import Right
from common.actor import Actor
from common.reconcile import Operation, Reconciler, Step, StepOutcome, lane_at, proceed, wait
from common.sealed import CannotUnseal
from hubs.backends.base import HubError, HubUnreachable, NameUnresolved, RateLimited
from hubs.backends.kinds import hub_at
from hubs.import_source import AllowedRepository, token_of, trusted_hosts
from hubs.models import HubSource, HubSync
from hubs.reconcilers.transfers import TransferReconciler, moved
from hubs.services import syncs
from hubs.states import HALTED, MOVING, TransferState
from models_registry.models import Version
from models_registry.services import imports
from models_registry.states import VersionState

ACTOR = Actor.system("hub sync")
SCHEDULE = Actor.system("schedule")
NOTICE = Actor.system("notice of the hub")
LOOK_EVERY = timedelta(seconds=1)
LOOK_AT_PAUSED_EVERY = timedelta(seconds=10)
LOOK_AGAIN_AFTER = timedelta(seconds=10)
ASK_AGAIN_AFTER = timedelta(seconds=10)
PATIENCE = timedelta(minutes=5)
"""For a hub that does not say which commit a revision is."""
NAME_PATIENCE, NAME_AGAIN_AFTER = timedelta(seconds=6), timedelta(seconds=2)
"""For one whose name does not resolve."""


class ScheduleSync(Step[HubSource]):
    """Begins the sync that is due, by the clock or by a notice of the hub.

    What is missed while nothing runs is made up for once.
    """

    name = "schedule"

    def observe(self, row: HubSource, operation: Operation) -> HubSync | None:
        return HubSync.objects.open().filter(source=row).select_related("source__model", "version").first()

    def settle(self, row: HubSource, seen: HubSync | None, now: datetime) -> StepOutcome:
        if row.due_at is not None and row.due_at > now:
            return wait(row.due_at - now)
        if seen is not None and seen.state != TransferState.INTERRUPTED:
            # It may have resolved its revision before the change that is to be fetched.
            return wait(LOOK_AGAIN_AFTER)

        actor = NOTICE if row.is_noticed else SCHEDULE

        def write() -> None:
            if seen is None:
                syncs.begin_sync(row, actor=actor, is_scheduled=True)
            else:
                syncs.go_on(seen, actor=actor)

        if seen is not None and (row.is_noticed or not row.every_seconds):
            # It goes on with the commit that it had; what is due is another look after it.
            return proceed(save={}, write=write)
        if row.every_seconds:
            every = timedelta(seconds=row.every_seconds)
            return proceed(save={"due_at": now + every, "is_noticed": False}, write=write, after=every)
        return proceed(save={"due_at": None, "is_noticed": False}, write=write)


class HubSourceReconciler(Reconciler[HubSource]):
    model = HubSource
    right = Right.MODELS_WRITE

    def next_step(self, row: HubSource, now: datetime) -> Step[HubSource] | None:
        return ScheduleSync() if row.due_at is not None and row.deleted_at is None else None


@dataclass(frozen=True, slots=True)
class RevisionAnswer:
    """A hub's answer about a revision, and the version that is known of it."""

    commit: str = ""
    error: HubError | CannotUnseal | None = None
    known: Version | None = None
    """The newest version of that commit."""


class ResolveRevision(Step[HubSync]):
    """Find the commit of the revision, and the version made from it."""

    name = "resolve"

    def observe(self, row: HubSync, operation: Operation) -> RevisionAnswer:
        source = row.source
        try:
            token = token_of({"hub_source": source.pk})
            hub = hub_at(source.endpoint, kind=source.kind, token=token, trusted_hosts=trusted_hosts())
            commit = hub.commit_of(source.repo_id, source.ref)
        except (HubError, CannotUnseal) as error:
            return RevisionAnswer(error=error)
        known = Version.objects.filter(
            model=source.model_id,
            source__kind="hub",
            source__endpoint=source.endpoint,
            source__repo_id=source.repo_id,
            source__commit=commit,
        )
        same = (one for one in known.select_related("model").order_by("-number") if _is_same(one, source))
        return RevisionAnswer(commit=commit, known=next(same, None))

    def settle(self, row: HubSync, seen: RevisionAnswer, now: datetime) -> StepOutcome:
        if isinstance(seen.error, RateLimited):
            return wait(timedelta(seconds=seen.error.retry_after_s), save={"reason": str(seen.error)})
        if isinstance(seen.error, HubUnreachable):
            is_unknown = isinstance(seen.error, NameUnresolved)
            if now - row.began_at < (NAME_PATIENCE if is_unknown else PATIENCE):
                after = NAME_AGAIN_AFTER if is_unknown else ASK_AGAIN_AFTER
                return wait(after, save={"reason": f"{seen.error} Asking again."})
        if seen.error:
            cause = seen.error.cause if isinstance(seen.error, HubError) else ""
            return moved(TransferState.FAILED, now, reason=str(seen.error), cause=cause)
        if row.source.model.deleted_at or row.source.deleted_at:
            return moved(TransferState.FAILED, now, reason="Its model or its source was deleted meanwhile.")
        if seen.known and (words := _is_enough(seen.known, is_scheduled=row.is_scheduled)):
            return moved(TransferState.CURRENT, now, reason=words, commit=seen.commit, version=seen.known)
        return self._import(row, seen, now)

    @staticmethod
    def _import(row: HubSync, seen: RevisionAnswer, now: datetime) -> StepOutcome:
        source = row.source
        wanted = AllowedRepository(source.endpoint, source.repo_id, source.ref, source.kind).as_json(
            allow_patterns=source.allow_patterns,
            ignore_patterns=source.ignore_patterns,
            hub_source=source.pk,
            commit=seen.commit,
        )

        def write() -> None:
            version = seen.known
            if version is None or version.state == VersionState.DELETED:
                version = Version(
                    model=source.model,
                    source=wanted,
                    message=f"{source.repo_id} at {source.ref}, commit {seen.commit[:12]}.",
                    author_id=row.author_id,
                    author_name=row.author_name,
                )
                imports.begin(version, actor=ACTOR)
            elif version.state != VersionState.IMPORTING:
                imports.again(version, actor=ACTOR, source=wanted)
            HubSync.objects.filter(pk=row.pk).update(version=version)

        return moved(TransferState.FETCHING, now, commit=seen.commit, write=write)


def _is_same(version: Version, source: HubSource) -> bool:
    """Whether it holds what the source asks for, the patterns considered."""
    told = version.source
    return (told["allow_patterns"], told["ignore_patterns"]) == (
        source.allow_patterns,
        source.ignore_patterns,
    )


def _is_enough(version: Version, *, is_scheduled: bool) -> str:
    """Why no version is made of a commit, as a sentence; empty: one is made."""
    if version.state == VersionState.READY:
        return f"{version} holds this commit."
    if version.state == VersionState.ARCHIVED:
        return f"{version} holds this commit; it is archived."
    # A person who asks gets another try; a schedule would refuse the same files every time.
    if is_scheduled and version.state in (VersionState.REFUSED, VersionState.DELETED):
        return f"{version} of this commit was {version.state}. A sync by hand tries it again."
    return ""


class FollowSyncImport(Step[HubSync]):
    """The version is imported; this tells how it ends."""

    name = "follow"

    def observe(self, row: HubSync, operation: Operation) -> Version:
        return Version.objects.select_related("model").get(pk=row.version_id or 0)

    def settle(self, row: HubSync, seen: Version, now: datetime) -> StepOutcome:
        if seen.state == VersionState.READY:
            return _done(row, seen, now)
        if seen.state == VersionState.ARCHIVED:
            return moved(TransferState.DONE, now, reason=f"{seen} was ready, and is archived by now.")
        if seen.state == VersionState.REFUSED:
            return moved(TransferState.REFUSED, now, reason=seen.reason)
        if seen.state != VersionState.IMPORTING:
            reason = seen.reason or f"{seen} is {seen.state}."
            return moved(TransferState.FAILED, now, reason=reason, cause=seen.scan.get("cause", ""))
        if not seen.is_paused and row.state != TransferState.FETCHING:
            return moved(TransferState.FETCHING, now, cause="")
        if seen.is_paused and row.state == TransferState.FETCHING:
            cause = seen.scan.get("cause", "")
            return moved(TransferState.INTERRUPTED, now, reason=seen.reason, cause=cause)
        return wait(LOOK_AT_PAUSED_EVERY if seen.is_paused else LOOK_EVERY)


def _done(row: HubSync, version: Version, now: datetime) -> StepOutcome:
    ready = f"{version} is ready."

    def write() -> None:
        if told := syncs.trigger_release(row.source, version):
            HubSync.objects.filter(pk=row.pk).update(reason=f"{ready} {told}")

    return moved(TransferState.DONE, now, reason=ready, write=write)


class HubSyncReconciler(TransferReconciler[HubSync]):
    model = HubSync
    right = Right.MODELS_WRITE
    actor = ACTOR
    transfers = syncs.SYNCS
    lease = timedelta(minutes=3)
    """Longer than a hub may take to say which commit a revision is."""

    def rows(self) -> QuerySet[HubSync]:
        return HubSync.objects.select_related("source__model")

    def lane_of(self, row: HubSync) -> str:
        return lane_at("hub", row.source.endpoint) if row.state == TransferState.RESOLVING else ""

    def next_step(self, row: HubSync, now: datetime) -> Step[HubSync] | None:
        if row.state == TransferState.RESOLVING:
            return ResolveRevision()
        return FollowSyncImport() if row.state in MOVING | HALTED else None
