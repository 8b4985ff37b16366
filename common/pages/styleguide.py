"""Sample content of the style guide: invented, never from the database."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import exp, log1p, sin
from typing import Any, cast

from django import forms
from django.http import HttpRequest
from django.utils import timezone

from common.pages import badges
from common.pages.badges import TONES, badges_named
from common.pages.charts import Chart, Limit, Mark, Series
from common.pages.listing import ListPage
from common.pages.steps import StepView

MODELS = (
    ("llama-3.1-8b-chat", "v14", "ready", 16_060_522_240, 0.62),
    ("qwen3-embed-0.6b", "v3", "ready", 1_191_586_416, 0.11),
    ("whisper-large-v3", "v7", "importing", 3_087_130_976, None),
    ("sdxl-turbo", "v2", "refused", 6_938_040_682, None),
    ("mixtral-8x22b-instruct", "v5", "ready", 281_241_493_344, 0.97),
    ("phi-4-mini", "v1", "failed", 7_672_000_000, None),
)


@dataclass(frozen=True, slots=True)
class StyleguideRow:
    name: str
    version: str
    state: str
    size: int
    busy: float | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StyleguideLine:
    at: datetime
    level: str
    text: str


class StyleguideFilter(forms.Form):
    q = forms.CharField(label="Name", required=False, widget=forms.SearchInput(attrs={"placeholder": "Name"}))
    state = forms.ChoiceField(
        label="State",
        required=False,
        choices=lambda: [("", "Any"), *((key, badge.word) for key, badge in badges_named("version").items())],
    )


@dataclass(frozen=True, slots=True)
class StyleguideFilters:
    form: StyleguideFilter


class StyleguideForm(forms.Form):
    name = forms.SlugField(help_text="Part of the address: /name/v1/chat/completions")
    engine = forms.ChoiceField(choices=[("transformers", "Transformers"), ("vllm", "vLLM")])
    replicas = forms.IntegerField(min_value=1, max_value=64, initial=2)
    message = forms.CharField(widget=forms.Textarea(attrs={"rows": 2}), required=False)
    protected = forms.BooleanField(required=False, label="Releases need an approval")


def _listing(request: HttpRequest, now: datetime) -> ListPage[Any]:
    """The same object that `list_page` makes of a queryset, over the sample rows."""
    rows = [
        StyleguideRow(*model, created_at=now - timedelta(hours=7 * index + 1))
        for index, model in enumerate(MODELS)
    ]
    text, state = request.GET.get("q", "").lower(), request.GET.get("state", "")
    rows = [row for row in rows if text in row.name and state in ("", row.state)]
    sort = request.GET.get("sort", "-created")
    keys = {"name": "name", "size": "size", "created": "created_at"}
    if sort.removeprefix("-") not in keys:
        sort = "-created"
    rows.sort(key=lambda row: getattr(row, keys[sort.removeprefix("-")]), reverse=sort.startswith("-"))
    total = len(rows) if request.GET else 1_204
    return ListPage(
        rows=cast(list[Any], rows),
        number=1,
        size=6,
        total=total,
        has_next=total > len(rows),
        sort=sort,
        query=request.GET,
        filters=cast(Any, StyleguideFilters(StyleguideFilter(request.GET))),
    )


def _latency(now: datetime) -> Chart:
    moments = [now - timedelta(seconds=10 * (90 - index)) for index in range(91)]
    stable = [0.041 + 0.004 * sin(index / 4) + 0.002 * sin(index * 1.7) for index in range(91)]
    candidate = [
        None if index < 30 else 0.036 + 0.005 * sin(index / 3 + 1) + 0.03 * exp(-(index - 30) / 4)
        for index in range(91)
    ]
    return Chart(
        title="Time to first token, P95",
        moments=moments,
        series=[Series("stable", stable, "stable", fill=True), Series("candidate", candidate, "candidate")],
        unit="seconds",
        limits=[Limit("objective", 0.06)],
        marks=[Mark("25% to candidate", moments[30])],
        minimum=0,
    )


def _evidence(now: datetime) -> Chart:
    moments = [now - timedelta(seconds=10 * (60 - index)) for index in range(61)]
    return Chart(
        title="Evidence against the candidate",
        moments=moments,
        series=[Series("e-value", [exp(log1p(index) * 0.55 - 0.4) for index in range(61)], "candidate")],
        limits=[Limit("roll back above 20", 20, "bad"), Limit("promote below 0.2", 0.2, "good")],
        minimum=0.1,
        maximum=40,
        logarithmic=True,
    )


def _steps(now: datetime) -> list[StepView]:
    began = now - timedelta(minutes=14)

    def at(minutes: float) -> datetime:
        return began + timedelta(minutes=minutes)

    return [
        StepView("shield-search", "Scan", "done", "7 files, nothing found", at(0), at(0.1)),
        StepView("server-bolt", "Deploy", "done", "2 workers ready", at(0.1), at(0.6)),
        StepView("flame", "Smoke test", "done", "12 of 12 answered", at(0.6), at(0.7)),
        StepView("arrows-split", "Weight 5%", "done", "5.1% observed", at(0.7), at(0.75)),
        StepView("scale", "Judge", "done", "no worse than stable", at(0.75), at(5)),
        StepView("arrows-split", "Weight 25%", "done", "24.8% observed", at(5), at(5.03)),
        StepView("user-check", "Approval", "waiting", "asked by ada", at(9)),
        StepView("rocket", "Promote", "pending"),
    ]


def samples(request: HttpRequest) -> dict[str, Any]:
    now = timezone.now()
    history = [0.5 + 0.35 * sin(index / 5) + 0.1 * sin(index * 1.3) for index in range(60)]
    return {
        "now": now,
        "tones": TONES,
        "badges": {name: list(badges_named(name)) for name in badges.names()},
        "moments": [now, now - timedelta(seconds=42), now - timedelta(hours=5), now + timedelta(minutes=4)],
        "listing": _listing(request, now),
        "nothing": ListPage(
            rows=[], number=1, size=50, total=0, has_next=False, sort="name", query=request.GET
        ),
        "latency": _latency(now),
        "evidence": _evidence(now),
        "unmeasured": Chart("Requests per second", [], [Series("stable", [], "stable")], "rate"),
        "lone": Chart("Requests per second", [now], [Series("stable", [2.0], "stable")], "rate"),
        "steps": _steps(now),
        "history": history,
        "gpus": [("GPU 0", 0.03), ("GPU 1", 0.42), ("GPU 2", 0.78), ("GPU 3", 1.0), ("GPU 4", None)],
        "cells": [
            (f"node-{index:02d}", None if index == 37 else max(0.0, min(1.0, 0.55 + 0.5 * sin(index * 1.9))))
            for index in range(64)
        ],
        "levels": [level / 10 for level in range(11)],
        "form": StyleguideForm(request.GET or None) if "name" in request.GET else StyleguideForm(),
        "faulty_form": StyleguideForm({"name": "not a slug", "engine": "vllm", "replicas": "0"}),
        "log": [
            StyleguideLine(now - timedelta(seconds=31), "info", "Loading llama-3.1-8b-chat:v14 (16.1 GB)"),
            StyleguideLine(
                now - timedelta(seconds=12), "info", "Engine transformers ready in 18.4 s, 8 slots"
            ),
            StyleguideLine(
                now - timedelta(seconds=11), "warning", "No GPU found; answers will come from the CPU"
            ),
            StyleguideLine(
                now - timedelta(seconds=2), "error", "CUDA error: an illegal memory access was encountered"
            ),
        ],
    }
