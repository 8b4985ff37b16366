"""`slipway token exchange`: a token for a CI job, without a stored secret."""

import os
from dataclasses import replace
from typing import Annotated, Any

import typer

from slipway.cli.context import CliContext, context_of
from slipway.client import at
from slipway.exits import CommandFailed, Exit

SECONDS = 30.0


def exchange(
    typer_context: typer.Context,
    account: Annotated[
        str, typer.Option("--account", help="Service account; needed when credentials of several fit.")
    ] = "",
    audience: Annotated[
        str, typer.Option("--audience", help="Audience of the job's token; default: the console's address.")
    ] = "",
    variable: Annotated[
        str,
        typer.Option("--token-variable", help="GitLab: the variable that `id_tokens` fills."),
    ] = "SLIPWAY_ID_TOKEN",
) -> None:
    """Print an API token for this CI job, by the job's own OpenID Connect token. It lives minutes."""
    # The job proves itself by the body; there is no token yet.
    context = replace(context_of(typer_context), token="none")  # noqa: S106 (no secret)
    body: dict[str, Any] = {"token": _job_token(context, audience, variable)}
    body |= {"account": account} if account else {}
    # No retry under an idempotency key: a secret is never told twice.
    answer = context.client.post(at("tokens", "exchange"), body)
    context.show(answer)
    context.say_secret(answer["token"])


def _job_token(context: CliContext, audience: str, variable: str) -> str:
    """Return the token that GitHub gives or GitLab put into a variable. Raises CommandFailed."""
    if told := os.environ.get(variable, ""):
        return told.strip()
    url = os.environ.get("ACTIONS_ID_TOKEN_REQUEST_URL", "")
    key = os.environ.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "")
    if not (url and key):
        raise CommandFailed(
            "This job has no OpenID Connect token. GitHub: `permissions: id-token: write`. GitLab: "
            f"`id_tokens: {variable}: aud: ...`. See docs/SIGN_IN.md.",
            Exit.USAGE,
        )
    import httpx2  # other commands are spared it

    params = {"audience": audience or context.client.url}
    try:
        answer = httpx2.get(
            httpx2.URL(url).copy_merge_params(params),
            headers={"Authorization": f"Bearer {key}"},
            timeout=SECONDS,
        )
        return str(answer.raise_for_status().json()["value"])
    except (httpx2.HTTPError, ValueError, KeyError) as error:
        raise CommandFailed(f"GitHub did not give a token: {error}", Exit.UNREACHABLE) from None
