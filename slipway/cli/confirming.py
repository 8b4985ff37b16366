"""Commands that delete, end something for good or move traffic ask first; `--yes` answers beforehand."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from slipway.cli.context import CliContext, context_of
from slipway.cli.options import Yes

Question = str | Callable[[CliContext, dict[str, Any]], str]
"""A text with the parameters of the command in braces; or a function of them, "" for nothing to ask."""
Command = Callable[..., None]


def confirmed(question: Question) -> Callable[[Command], Command]:
    """Add `--yes` to a command, and have the person confirm before anything is changed."""

    def decorated(command: Command) -> Command:
        @wraps(command)
        def confirming(*, yes: bool, **given: Any) -> None:
            context = context_of(given["typer_context"])
            asked = question.format(**given) if isinstance(question, str) else question(context, given)
            if asked:
                context.confirm(asked, yes=yes)
            command(**given)

        signature = inspect.signature(command)
        option = inspect.Parameter("yes", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Yes)
        confirming.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*signature.parameters.values(), option]
        )
        confirming.__annotations__ = {**command.__annotations__, "yes": Yes}
        return confirming

    return decorated
