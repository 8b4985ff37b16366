"""`{% load stuck %}{% stuck row %}`: that a row is stuck or failing, since when, why, and what to do."""

from hashlib import sha256
from typing import Any

from django import template
from django.template import Context

from accounts.actors import of_request
from accounts.forms import AnswerForm
from accounts.stuck import UncertainEffect, stuck_at, stuck_of
from common.reconcile import Reconciled

register = template.Library()


@register.inclusion_tag("accounts/_stuck.html", takes_context=True)
def stuck(context: Context, row: Reconciled | None) -> dict[str, Any]:
    """Show why the row is stuck; empty while it is well. The button posts from the row's own page."""
    return {"stuck": stuck_of(row, of_request(context["request"])) if row else None}


@register.inclusion_tag("accounts/_stuck_here.html", takes_context=True)
def stuck_here(context: Context) -> dict[str, Any]:
    """The same of the rows whose only page is the present one, such as the gateway and the store's runs."""
    return {"rows": stuck_at(context["request"].path, of_request(context["request"]))}


@register.simple_tag
def answer_form(doubt: UncertainEffect, happened: str) -> AnswerForm:
    """The hidden part of the dialog in which somebody says `yes` or `no`."""
    return AnswerForm(initial={"op_key": doubt.op_key, "happened": happened})


@register.filter
def dialog(doubt: UncertainEffect, happened: str) -> str:
    """The id of the dialog in which somebody says `yes` or `no`."""
    return f"doubt-{happened}-{sha256(doubt.op_key.encode()).hexdigest()[:12]}"


@register.filter
def wanted(doubt: UncertainEffect) -> list[str]:
    """Return the effects that the step was about to make, one a line."""
    return [f"{name}: {value}" for name, value in doubt.wanted.items()]
