"""The form of the healing policy: whether healing acts, within which limits, and when. Services decide."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.audit import MAX_REASON
from common.languages import Text
from common.pages.forms import PLAIN
from gpu_health.healing.limits import MAX_SECONDS, HealingLimits
from gpu_health.models import HealingPolicy
from gpu_health.policy.rule import RemediationAction
from gpu_health.states import FindingSeverity, HealingMode

UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
_LENGTH = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|min|h|d)?", re.ASCII)
BLANK_WINDOWS = 2
MOST_WINDOWS = 50
DAYS = (
    ("0", gettext_lazy("Mon")),
    ("1", gettext_lazy("Tue")),
    ("2", gettext_lazy("Wed")),
    ("3", gettext_lazy("Thu")),
    ("4", gettext_lazy("Fri")),
    ("5", gettext_lazy("Sat")),
    ("6", gettext_lazy("Sun")),
)


def length_text(seconds: float) -> str:
    """`600` as `10 min`: the largest unit of which it is a whole number."""
    for unit, size in reversed(UNITS.items()):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


class LengthField(forms.CharField):
    """A length of time as people write it: `90 s`, `10 min`, `2 h`, `7 d`; a number alone is seconds."""

    def __init__(self, **options: Any) -> None:
        super().__init__(widget=forms.TextInput(attrs={**PLAIN, "class": "num"}), max_length=20, **options)

    def prepare_value(self, value: Any) -> Any:
        return length_text(value) if isinstance(value, int | float) else value

    def clean(self, value: Any) -> float:
        found = _LENGTH.fullmatch(super().clean(value).strip())
        if found is None:
            raise forms.ValidationError(_("Give a length of time, such as 90 s, 10 min, 2 h or 7 d."))
        seconds = float(found[1]) * UNITS[found[2] or "s"]
        if seconds > MAX_SECONDS:
            raise forms.ValidationError(_("Give 30 days at most."))
        return seconds


@dataclass(frozen=True, slots=True)
class Section:
    """Fields that are read and saved together. `key`: in addresses and forms."""

    key: str
    title: Text
    words: Text
    names: Sequence[str]


WINDOWS = Section(
    "windows",
    gettext_lazy("Maintenance windows"),
    gettext_lazy("Drains and repairs happen within these times only; without any, at any time. A quarantine "
                 "never waits for a window. A window that ends before it begins ends the next day."),
    (),
)  # fmt: skip


SECTIONS = (
    Section(
        "mode",
        gettext_lazy("Whether healing acts"),
        gettext_lazy("In a dry run incidents say what would be done, and nothing is. The mode of one rule is "
                     "changed on the page of the rule."),
        ("mode", "dry_clusters"),
    ),
    Section(
        "budgets",
        gettext_lazy("Budgets"),
        gettext_lazy("How many machines of a pool are drained and repaired side by side. A machine is put "
                     "out of service at once while the pool has room; its repair waits for a slot."),
        ("slots_percent", "unhealthy_percent", "unhealthy_above"),
    ),
    Section(
        "breaker",
        gettext_lazy("Breaker"),
        gettext_lazy(
            "Faults on many machines at once rarely come from the machines. The breaker stops healing in "
            "the pool until a person has looked."
        ),
        ("breaker_percent", "breaker_seconds", "domain_percent"),
    ),
    Section(
        "rates",
        gettext_lazy("Rates"),
        gettext_lazy("How fast repairs follow each other in a pool."),
        ("repairs_per_hour", "repairs_percent", "seconds_between_drains"),
    ),
    Section(
        "waits",
        gettext_lazy("Waits and cooldowns"),
        gettext_lazy("How long a fault is watched before the first action, and how long a machine that came "
                     "back is left alone."),
        (*(f"wait_{one}" for one in FindingSeverity.values), "fault_wait_seconds", "cooldown_seconds"),
    ),
    Section(
        "lemons",
        gettext_lazy("Lemons"),
        gettext_lazy("A machine that is repaired again and again needs a person, not another repair."),
        ("lemon_remediations", "lemon_seconds"),
    ),
    Section(
        "approvals",
        gettext_lazy("Approvals"),
        gettext_lazy("Actions that wait for a person, whatever the mode of their rule."),
        ("approved_actions", "approval_seconds", "two_people"),
    ),
    Section(
        "times",
        gettext_lazy("Time limits"),
        gettext_lazy("How long each stage of an incident may take, or must last."),
        ("drain_seconds", "action_seconds", "check_seconds", "quiet_seconds", "watch_seconds"),
    ),
    WINDOWS,
)  # fmt: skip
_PERCENT: Mapping[str, tuple[Text, Text]] = {
    "slots_percent": (
        gettext_lazy("Machines in repair at once, % of the pool"),
        gettext_lazy("One at least."),
    ),
    "unhealthy_percent": (
        gettext_lazy("Machines out of service at most, % of the pool"),
        gettext_lazy(
            "One at least, whoever put them out of service. Beyond that nothing is quarantined or "
            "repaired unless a person approves."
        ),
    ),
    "breaker_percent": (
        gettext_lazy("Breaker opens at, % of the pool cordoned"),
        gettext_lazy("Two machines at least."),
    ),
    "domain_percent": (
        gettext_lazy("Rack or NVLink domain is at fault at, % bad"),
        gettext_lazy("Two machines at least; each of them then takes an approval."),
    ),
    "repairs_percent": (
        gettext_lazy("Or repairs an hour, % of the pool"),
        gettext_lazy("Whichever is more."),
    ),
}
_COUNTS: Mapping[str, tuple[Text, Text]] = {
    "unhealthy_above": (
        gettext_lazy("Repairs stop for that in pools of more machines than"),
        gettext_lazy("In smaller pools one machine is a large share."),
    ),
    "repairs_per_hour": (gettext_lazy("Repairs an hour"), ""),
    "lemon_remediations": (gettext_lazy("Repairs before a machine is flagged as a lemon"), ""),
}
_LENGTHS: Mapping[str, tuple[Text, Text]] = {
    "breaker_seconds": (gettext_lazy("Within"), gettext_lazy("The time in which cordons are counted.")),
    "seconds_between_drains": (gettext_lazy("Between two drains"), ""),
    "cooldown_seconds": (gettext_lazy("Cooldown after a return"), ""),
    "lemon_seconds": (gettext_lazy("Within"), gettext_lazy("The time in which repairs are counted.")),
    "approval_seconds": (
        gettext_lazy("An approval is waited for"),
        gettext_lazy("Then the incident needs a person."),
    ),
    "drain_seconds": (gettext_lazy("Drain"), gettext_lazy("Blocked for longer, it needs a person.")),
    "action_seconds": (gettext_lazy("Action"), ""),
    "check_seconds": (gettext_lazy("Check job"), ""),
    "quiet_seconds": (
        gettext_lazy("Quiet period after an action"),
        gettext_lazy("Without a new fault, before the machine returns."),
    ),
    "watch_seconds": (
        gettext_lazy("Watch after the return"),
        gettext_lazy("Without a new fault, before the incident is closed."),
    ),
}


class LimitsForm(forms.Form):
    revision = forms.IntegerField(widget=forms.HiddenInput, min_value=0)
    mode = forms.ChoiceField(label=gettext_lazy("Mode"), choices=HealingMode.choices)
    dry_clusters = forms.MultipleChoiceField(
        label=gettext_lazy("Dry run in these clusters"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("Nothing is done there, whatever the mode."),
    )
    approved_actions = forms.MultipleChoiceField(
        label=gettext_lazy("Actions that take an approval"),
        required=False,
        choices=[(str(one), str(one)) for one in RemediationAction],
        widget=forms.CheckboxSelectMultiple,
    )
    two_people = forms.BooleanField(
        label=gettext_lazy("Two people"),
        required=False,
        help_text=gettext_lazy(
            "What lets healing do more (an approval less, the mode, a looser limit, a rule that acts) takes "
            "effect once two people have asked for it; whoever changed an approval does not give it."
        ),
    )
    fault_wait_seconds = forms.CharField(
        label=gettext_lazy("Of single faults"),
        required=False,
        max_length=2_000,
        widget=forms.Textarea(attrs={**PLAIN, "rows": 3, "class": "mono"}),
        help_text=gettext_lazy("A fault and its wait on each line: xid.79 = 2 min."),
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=MAX_REASON,
        help_text=gettext_lazy("Recorded in the audit log; not needed for a review."),
    )

    def __init__(
        self, data: QueryDict | None, *, policy: HealingPolicy, clusters: Iterable[str],
        section: Section | None = None,
    ) -> None:  # fmt: skip
        """`section`: the one that is saved; None: all are shown."""
        super().__init__(data, initial=_initial(policy))
        self._policy = policy
        self.section = section
        # One that is gone, or that this reader may not see, stays as it is.
        names = sorted({*clusters, *policy.dry_clusters})
        self.fields["dry_clusters"].choices = [(one, one) for one in names]  # type: ignore[attr-defined]
        for name, (label, words) in _PERCENT.items():
            self.fields[name] = forms.FloatField(label=label, help_text=words, min_value=0, max_value=100)
        for name, (label, words) in _COUNTS.items():
            self.fields[name] = forms.IntegerField(
                label=label, help_text=words, min_value=0, max_value=100_000
            )
        for name, (label, words) in _LENGTHS.items():
            self.fields[name] = LengthField(label=label, help_text=words)
        for severity, label in FindingSeverity.choices:
            self.fields[f"wait_{severity}"] = LengthField(label=label)
        count = min(MOST_WINDOWS, len(policy.windows) + BLANK_WINDOWS)
        if data is not None:
            count = min(MOST_WINDOWS, max(count, sum(name.startswith("start-") for name in data)))
        self._windows = range(count)
        for number in self._windows:
            window = policy.windows[number] if number < len(policy.windows) else {}
            self._add_window(number, window)
        if section is not None:
            kept = {"revision", "reason", *section.names}
            kept |= {name for name in self.fields if "-" in name} if section is WINDOWS else set()
            self.fields = {name: field for name, field in self.fields.items() if name in kept}

    def _add_window(self, number: int, window: Mapping[str, Any]) -> None:
        for name, label in (("start", _("Starts at")), ("end", _("Ends at"))):
            self.fields[f"{name}-{number}"] = forms.CharField(
                label=label,
                required=False,
                max_length=8,
                initial=window.get(name, ""),
                widget=forms.TextInput(attrs={**PLAIN, "placeholder": "22:00"}),
            )
        self.fields[f"days-{number}"] = forms.MultipleChoiceField(
            label=_("Weekdays"),
            required=False,
            choices=DAYS,
            initial=[str(day) for day in window.get("days", range(7))],
            widget=forms.CheckboxSelectMultiple,
        )
        self.fields[f"time_zone-{number}"] = forms.CharField(
            label=_("Time zone"),
            required=False,
            max_length=60,
            initial=window.get("time_zone", "UTC"),
            widget=forms.TextInput(attrs=PLAIN),
        )

    def shown(self, section: Section) -> list[tuple[Any, str]]:
        """Fields of the section, each with its default where it differs from it, else blank."""
        now, plain = _initial(self._policy), _initial(HealingPolicy(revision=0))
        return [
            (self[name], "" if now[name] == plain[name] else self._text(name, plain[name]))
            for name in section.names
        ]

    def _text(self, name: str, value: Any) -> str:
        field = self.fields[name]
        if isinstance(field, LengthField):
            return length_text(value)
        if isinstance(value, bool):
            return _("yes") if value else _("no")
        if isinstance(value, list | tuple):
            return ", ".join(map(str, value)) or _("none")
        if isinstance(field, forms.ChoiceField):
            return str(dict(HealingMode.choices)[value])
        return f"{value:g}" if isinstance(value, int | float) else value or _("none")

    @property
    def windows(self) -> list[dict[str, Any]]:
        return [
            {name: self[f"{name}-{number}"] for name in ("start", "end", "days", "time_zone")}
            for number in self._windows
        ]

    def clean_fault_wait_seconds(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for line in self.cleaned_data["fault_wait_seconds"].splitlines():
            fault, equals, length = (part.strip() for part in line.partition("="))
            if not fault and not length:
                continue
            if not (fault and equals and length):
                raise forms.ValidationError(
                    _("%(line)s: write a fault, =, and a length of time.") % {"line": line}
                )
            found[fault] = LengthField().clean(length)
        return found

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of `change_policy`: of the limits only those that differ from the defaults."""
        chosen = self.cleaned_data
        names = ("mode", "two_people", "dry_clusters")
        found: dict[str, Any] = {name: chosen[name] for name in names if name in chosen}
        if self.section is WINDOWS:
            found["windows"] = [self._window(number) for number in self._windows if chosen[f"start-{number}"]]
        limits = {name: chosen[name] for name in (*_PERCENT, *_COUNTS, *_LENGTHS) if name in chosen}
        if "fault_wait_seconds" in chosen:
            limits["wait_seconds"] = {one: chosen[f"wait_{one}"] for one in FindingSeverity.values}
            limits["fault_wait_seconds"] = chosen["fault_wait_seconds"]
        plain, order = HealingLimits().to_dict(), [str(one) for one in RemediationAction]
        if "approved_actions" in chosen:
            limits["approved_actions"] = sorted(chosen["approved_actions"], key=order.index)
            plain["approved_actions"] = sorted(plain["approved_actions"], key=order.index)
        if limits:
            others = {name: value for name, value in self._policy.limits.items() if name not in limits}
            changed = {name: value for name, value in limits.items() if value != plain[name]}
            found["limits"] = others | changed
        return found

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for number in self._windows if self.section is WINDOWS else ():
            start, end = (cleaned.get(f"{name}-{number}", "") for name in ("start", "end"))
            if bool(start) != bool(end):
                self.add_error(f"{'end' if start else 'start'}-{number}", _("Give both times, or none."))
        return cleaned

    def _window(self, number: int) -> dict[str, Any]:
        chosen = self.cleaned_data
        return {
            "start": chosen[f"start-{number}"],
            "end": chosen[f"end-{number}"],
            "days": sorted(int(day) for day in chosen[f"days-{number}"]),
            "time_zone": chosen[f"time_zone-{number}"] or "UTC",
        }


def _initial(policy: HealingPolicy) -> dict[str, Any]:
    limits = policy.figures
    figures = limits.to_dict()
    waits = {f"wait_{one}": limits.wait_seconds[one] for one in FindingSeverity.values}
    lines = [f"{fault} = {length_text(one)}" for fault, one in sorted(limits.fault_wait_seconds.items())]
    return {
        "revision": policy.revision,
        "mode": policy.mode,
        "two_people": policy.needs_two_people,
        "dry_clusters": policy.dry_clusters,
        **{name: figures[name] for name in (*_PERCENT, *_COUNTS, *_LENGTHS, "approved_actions")},
        **waits,
        "fault_wait_seconds": "\n".join(lines),
    }
