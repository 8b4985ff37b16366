"""Which orders of steps make sense, with words for those that do not."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from releases.errors import PlanProblem
from releases.plans.steps import Approval, Deploy, Hold, Judge, Promote, Scan, SmokeTest, Step, Weight

LONGEST_HOLDS_SECONDS = 30 * 24 * 3600


def sequence_problems(steps: Sequence[Step]) -> tuple[PlanProblem, ...]:
    """Everything that is wrong with `steps` as a sequence; each step is valid by itself."""
    found = _Sequence(steps)
    for index, step in enumerate(steps):
        match step:
            case Scan():
                found.check_scan(index)
            case Deploy():
                found.check_deploy(index, step)
            case SmokeTest():
                found.check_smoke_test(index)
            case Weight():
                found.check_weight(index, step)
            case Hold():
                found.check_hold(index)
            case Judge():
                found.check_judge(index, step)
            case Approval():
                found.check_approval(index, step)
            case Promote():
                found.check_promote(index)
    found.check_whole()
    return tuple(found.problems)


class _Sequence:
    """What the steps so far have brought about."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.problems: list[PlanProblem] = []
        self.deployed: Deploy | None = None
        self.weight_percent = 0
        self.judged = False

    def refuse(self, index: int, message: str, field: str = "") -> None:
        path = f"steps.{index}.{field}" if field else f"steps.{index}"
        self.problems.append(
            PlanProblem(
                path,
                _("step %(number)s (%(kind)s): %(message)s")
                % {"number": index + 1, "kind": self.steps[index].kind, "message": message},
            )
        )

    def check_scan(self, index: int) -> None:
        if self.deployed is not None:
            self.refuse(index, _("the version is already running; put the scan before the deploy step"))

    def check_deploy(self, index: int, step: Deploy) -> None:
        before = self.deployed
        if before is not None and (before.replicas or 0) > (step.replicas or 1000):
            self.refuse(
                index,
                _("starts fewer workers than the %(replicas)s before it") % {"replicas": before.replicas},
                "replicas",
            )
        if before is not None and (before.share_percent or 0) > (step.share_percent or 100):
            self.refuse(
                index,
                _("starts a smaller share than the %(share_percent)s %% before")
                % {"share_percent": before.share_percent},
                "share_percent",
            )
        self.deployed = step

    def check_smoke_test(self, index: int) -> None:
        if self.deployed is None:
            self.refuse(index, _("no candidate is running yet; put a deploy step before it"))
        if self.weight_percent:
            self.refuse(
                index, _("the candidate already has real traffic; put the smoke test before the first weight")
            )

    def check_weight(self, index: int, step: Weight) -> None:
        if self.deployed is None:
            self.refuse(index, _("no candidate is running yet; put a deploy step before it"))
        elif self.deployed.share_percent is not None and step.percent > self.deployed.share_percent:
            self.refuse(
                index,
                _(
                    "%(percent)s %% of the traffic would meet %(share_percent)s %% of the workers; put a "
                    "deploy step with share_percent of at least %(percent)s before it"
                )
                % {"percent": step.percent, "share_percent": self.deployed.share_percent},
                "percent",
            )
        if step.percent <= self.weight_percent:
            self.refuse(
                index,
                _("the weight is already %(weight_percent)s %%; weights only rise")
                % {"weight_percent": self.weight_percent},
                "percent",
            )
        self.weight_percent = max(self.weight_percent, step.percent)

    def check_hold(self, index: int) -> None:
        if self.deployed is None:
            self.refuse(index, _("nothing happens while it holds; put a deploy step before it"))

    def check_judge(self, index: int, step: Judge) -> None:
        if not self.weight_percent:
            self.refuse(index, _("a candidate without traffic cannot be judged; put a weight step before it"))
        elif self.weight_percent == 100:
            self.refuse(
                index,
                _("at 100 % stable answers nothing to compare with; judge before the weight becomes 100 %"),
            )
        later = self.steps[index + 1 :]
        if step.on_insufficient == "ask" and not any(isinstance(other, Approval) for other in later):
            self.refuse(
                index,
                _("on_insufficient is ask, but no later approval asks; add one or choose another way"),
                "on_insufficient",
            )
        self.judged = True

    def check_approval(self, index: int, step: Approval) -> None:
        if step.when == "unless_certified" and not self.judged:
            self.refuse(
                index, _("nothing before it can pass the candidate; put a judge step before it"), "when"
            )

    def check_promote(self, index: int) -> None:
        if index != len(self.steps) - 1:
            self.refuse(index, _("the release ends here; remove the steps after it, or move it to the end"))
        if self.deployed is None:
            self.refuse(index, _("no candidate is running yet; put a deploy step before it"))
        elif self.deployed.share_percent is not None and self.deployed.share_percent < 100:
            self.refuse(
                index,
                _(
                    "all traffic would go to %(share_percent)s %% of the workers; put a deploy step with "
                    "share_percent 100 before it"
                )
                % {"share_percent": self.deployed.share_percent},
            )

    def check_whole(self) -> None:
        if not any(isinstance(step, Promote) for step in self.steps):
            self.problems.append(
                PlanProblem("steps", _("the plan never promotes the candidate; end it with a promote step"))
            )
        holds = sum(step.seconds for step in self.steps if isinstance(step, Hold))
        if holds > LONGEST_HOLDS_SECONDS:
            self.problems.append(PlanProblem("steps", _("the holds together last more than 30 days")))
