"""What every step of a plan says of itself. Its kinds are the files of `releases.steps`, above this."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

from django.utils.translation import gettext
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY


def whole(*, least: int, most: int) -> Any:
    """A field for a whole number. Strict: "60", 60.5 and true are mistakes in a plan, not sixty seconds."""
    return Field(strict=True, ge=least, le=most)


class StepFault(NamedTuple):
    """Why a step cannot stand where it does."""

    message: str
    field: str = ""
    """The one to be mended; empty: the step as a whole."""


class JoinedStripCell(NamedTuple):
    """Text of a cell of the strip for two steps: `25 % for 10 min`, `hold 10 min`."""

    label: str
    detail: str


class ApprovalTerms(Protocol):
    """Terms of a step that waits for a person."""

    @property
    def role(self) -> Literal["approver", "admin"]: ...
    @property
    def people(self) -> int: ...
    @property
    def separate_requester(self) -> bool: ...
    @property
    def timeout_seconds(self) -> int: ...
    @property
    def on_timeout(self) -> Literal["roll_back", "reject", "wait"]: ...
    @property
    def keep_judging(self) -> bool: ...
    @property
    def when(self) -> Literal["always", "unless_certified"]: ...


class CohortTerms(Protocol):
    """Terms of a cohort, whose requests a step sends to the candidate from then on, whatever its share."""

    @property
    def header(self) -> str: ...
    @property
    def cookie(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def percent(self) -> int | None: ...
    @property
    def most_percent(self) -> int: ...


class AnalysisTerms(Protocol):
    """Terms of a step that waits for the judge: what it does without enough evidence."""

    @property
    def on_insufficient(self) -> Literal["ask", "wait", "promote", "roll_back"]: ...


class StepSpec(BaseModel):
    """A step as the plan describes it; durations are whole seconds, shares whole percents.

    A kind is a subclass with a `kind` of its own. Its fields are its schema: `title` is the label of a field
    in the editor, `description` its help. Texts are marked for translation, and translated where they show.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str

    label: ClassVar[str]
    icon: ClassVar[str] = "circle-dot"
    about: ClassVar[str]
    """One sentence, in the imperative."""
    order: ClassVar[int] = 1000
    """Menus and the reference list kinds by it: where they usually come in a plan."""
    start: ClassVar[Mapping[str, Any]] = {}
    """What a new one in the editor begins with, where a field without a default needs something."""
    choices: ClassVar[Mapping[str, str]] = {}
    """Labels of the values of its fields that are choices."""
    helps: ClassVar[Mapping[str, str]] = {}
    """Help in the editor instead of a field's `description`, where that names values as the document does."""

    # Where it may stand.

    def faults(self, place: "StepPosition") -> Iterator[StepFault]:
        """Why it cannot stand there."""
        return iter(())

    @classmethod
    def faults_of_plan(cls, steps: "Sequence[StepSpec]") -> Iterator[str]:  # noqa: ARG003
        """Yield what this kind finds wrong with a plan as a whole; asked for kinds it lacks, too."""
        return iter(())

    # What release policies, selectors, services and pages know of it.

    ends_plan: ClassVar[bool] = False
    """Whether it comes last: the editor puts new steps before it."""
    starts_candidate: ClassVar[bool] = False
    """Whether it is part of bringing the candidate up, which an estimate of the next start counts."""
    starts_workers: ClassVar[bool] = False
    """Whether workers come up during it."""
    brings_files: ClassVar[bool] = False
    """Whether it brings model files before there are workers."""
    probes: ClassVar[bool] = False
    """Whether it asks the candidate questions, and keeps the answers in `detail["probes"]`."""
    changes_share: ClassVar[bool] = False
    """Whether charts mark its start, because the candidate's share changes then."""
    counts: ClassVar[bool] = False
    """Whether it goes by what the gateway counts."""
    checks: ClassVar[bool] = False
    """Whether it checks the candidate, so that policies may demand it."""
    compares: ClassVar[bool] = False
    """Whether it needs a version that serves already."""

    @property
    def candidate_percent(self) -> int | None:
        """The share of the requests that it gives the candidate; None: it changes none."""
        return None

    @property
    def exposed_percent(self) -> int:
        """The most of the requests that may meet the candidate by it."""
        return self.candidate_percent or 0

    @property
    def must_pass(self) -> bool:
        """Whether the release goes no further when its check is not passed."""
        return self.checks

    @property
    def cohort_terms(self) -> CohortTerms | None:
        return None

    @property
    def approval(self) -> ApprovalTerms | None:
        return None

    @property
    def analysis(self) -> AnalysisTerms | None:
        return None

    @property
    def needs(self) -> str:
        """Return what it asks of a gateway that not every one can, as `TrafficBackend.cannot` names it;
        empty: nothing.
        """
        return ""

    def lacks(self, service: Any) -> str:
        """Return what keeps it from being done for the `releases.models.Service`; empty: nothing."""
        return ""

    # Words.

    def name(self) -> str:
        """Return the text of a cell of the strip."""
        return gettext(self.label)

    @abstractmethod
    def summary(self) -> str:
        """A few words, where something beside them says of which kind it is: `5 %`, `60 s`."""

    def spoken(self) -> str:
        """The same where nothing does: `weight 5 %`."""
        return self.summary()

    def planned(self) -> str:
        """Say what it will do, below its name in the strip."""
        return ""

    def joined(self, before: "StepSpec") -> JoinedStripCell | None:
        """If it shares the cell of the step before it: what that says of both."""
        return None

    def found(self, progress: Any) -> str:
        """Say what it did, or does, below its name. `progress`: a `releases.progress.StepProgress`."""
        return ""

    def consequences(self, release: Any) -> tuple[str, ...]:
        """Say what it will do, in sentences: for whoever approves the `releases.models.Release`."""
        words = self.summary()
        return (f"{words[0].upper()}{words[1:]}.",)

    # Execution.

    @abstractmethod
    def executor(self) -> Any:
        """The `releases.reconcilers.base.Executor` that takes it."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        kind = cls.model_fields["kind"].default
        if isinstance(kind, str):
            if kind in _kinds:
                raise ValueError(f"There is a kind of step {kind} already: {_kinds[kind].__module__}.")
            _kinds[kind] = cls

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        found = handler.resolve_ref_schema(handler(schema))
        found["description"] = cls.about
        return found


Spec = TypeVar("Spec", bound=StepSpec)


@dataclass(frozen=True, slots=True)
class StepPosition:
    """A step's place among the others of its plan."""

    steps: Sequence[StepSpec]
    index: int

    @property
    def before(self) -> Sequence[StepSpec]:
        return self.steps[: self.index]

    @property
    def after(self) -> Sequence[StepSpec]:
        return self.steps[self.index + 1 :]

    @property
    def percent(self) -> int:
        """The candidate's share of the requests when the step begins."""
        return max((step.candidate_percent or 0 for step in self.before), default=0)

    @property
    def exposed_percent(self) -> int:
        """The most of the requests that may meet the candidate when the step begins."""
        return max((step.exposed_percent for step in self.before), default=0)

    def last(self, kind: type[Spec]) -> Spec | None:
        """The last one of the kind before it."""
        return next((step for step in reversed(self.before) if isinstance(step, kind)), None)


_kinds: dict[str, type[StepSpec]] = {}


def kinds() -> Mapping[str, type[StepSpec]]:
    """The kinds of steps that there are, in their usual order in a plan."""
    if not _kinds:
        raise RuntimeError("No kind of step is known before Django has loaded releases.steps.")
    return dict(sorted(_kinds.items(), key=lambda item: (item[1].order, item[0])))


def kinds_with(trait: str) -> tuple[str, ...]:
    """The names of the kinds whose trait of `StepSpec`, such as `counts`, is true."""
    return tuple(name for name, kind in kinds().items() if getattr(kind, trait))


class AnyStep:
    """Marks a field that holds a step of whichever kind its `kind` names."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.tagged_union_schema(
            choices={name: handler.generate_schema(kind) for name, kind in kinds().items()},
            discriminator="kind",
        )
