"""`slipway webhook`: webhook endpoints and their deliveries."""

from typing import Annotated, Any

import orjson
import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of, first_of, flag
from slipway.cli.options import Limit, Number, Reason, Timeout, Wait
from slipway.cli.waiting import until_over
from slipway.client import ApiPath, Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Webhooks: endpoints that receive events, and their deliveries.", no_args_is_help=True)

Url = Annotated[
    str,
    typer.Argument(
        help="URL: https, on the public internet; with --mine, e-mail needs none.", show_default=False
    ),
]
Events = Annotated[
    list[str] | None,
    typer.Option("--event", "-e", help="Event type, such as release.ended; repeatable; default: all."),
]
Description = Annotated[str | None, typer.Option("--description", help="Description.")]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        help="Whose messages the receiver takes: standard (default), slack, feishu, dingtalk, wecom, teams, "
        "alertmanager, pagerduty or email (URL mailto:...).",
    ),
]
Language = Annotated[str, typer.Option("--language", help="Of the words: en or zh-hans.")]
Digest = Annotated[
    int | None, typer.Option("--digest-minutes", min=0, help="Messages of so many minutes go as one.")
]
Quiet = Annotated[
    str, typer.Option("--quiet", help="Hours in which messages wait: `22:00-07:00 Europe/Paris`, or `none`.")
]
Teams = Annotated[
    list[str] | None,
    typer.Option("--only-team", help="Events of this team alone, of several; repeatable; default: all."),
]
Severity = Annotated[
    str, typer.Option("--severity", help="Least severity of alerts: warning or critical, or any.")
]
DeliveryNumber = Annotated[int, typer.Argument(metavar="DELIVERY", help="ID from `deliveries`.")]


COLUMNS: Columns = {
    "ID": "id",
    "OF": lambda row: row["person"] or row["team"] or "all",
    "URL": "url",
    "EVENTS": lambda row: first_of(row["events"]) or "all",
    "STATE": lambda row: _state(row),
    "LAST SUCCESS": "delivered_at",
}
DELIVERY_COLUMNS: Columns = {
    "ID": "id",
    "TYPE": "type",
    "STATE": "state",
    "TRIES": "tries",
    "CREATED": "created_at",
    "NEXT TRY": "due_at",
    "LAST RESPONSE": lambda row: _answer(row),
}
TRY_COLUMNS: Columns = {
    "AT": "at",
    "STATUS": "status",
    "MS": "milliseconds",
    "RESPONSE": lambda row: row["error"] or row["answer"],
}


@app.command("list")
def list_webhooks(
    typer_context: typer.Context,
    query: Annotated[str, typer.Option("--search", "-q", help="Part of a URL or description.")] = "",
    enabled: Annotated[bool | None, typer.Option("--enabled/--disabled", help="Only in this state.")] = None,
) -> None:
    """List webhooks, newest first."""
    context = context_of(typer_context)
    context.each(at("webhooks"), COLUMNS, q=query, enabled=flag(enabled))


@app.command("show")
def show(typer_context: typer.Context, number: Number) -> None:
    """Show a webhook."""
    context = context_of(typer_context)
    webhook = context.client.get(at("webhooks", number))
    context.show(webhook)
    _tell(context, webhook)


@app.command("add")
def add(
    typer_context: typer.Context,
    url: Url = "",
    team: Annotated[
        str, typer.Option("--team", help="Events of this team; default: of all teams, for administrators.")
    ] = "",
    mine: Annotated[
        bool, typer.Option("--mine", help="Of your own: events of the teams that you are in.")
    ] = False,
    events: Events = None,
    teams: Teams = None,
    severity: Severity = "",
    description: Description = None,
    message_format: Format = "",
    language: Language = "",
    digest_minutes: Digest = None,
    quiet: Quiet = "",
) -> None:
    """Add a webhook; its signing secret is shown once, on stdout."""
    context = context_of(typer_context)
    person = context.client.get(at("me"))["username"] if mine else ""
    given = {"url": url, "team": team, "person": person, "events": events, "teams": teams}
    given |= {"description": description, "severity": severity}
    given |= _of_messages(message_format, language, digest_minutes, quiet)
    _issue(context, at("webhooks"), {key: value for key, value in given.items() if value})


@app.command("rotate")
def rotate(typer_context: typer.Context, number: Number) -> None:
    """Rotate the signing secret; the new one is shown once, the previous one stays valid for a day."""
    _issue(context_of(typer_context), at("webhooks", number, "rotate-secret"), {})


@app.command("edit")
def edit(
    typer_context: typer.Context,
    number: Number,
    url: Annotated[str, typer.Option("--url", help="URL: https, on the public internet.")] = "",
    events: Events = None,
    all_events: Annotated[
        bool, typer.Option("--all-events", help="All event types, future ones included.")
    ] = False,
    teams: Teams = None,
    all_teams: Annotated[bool, typer.Option("--all-teams", help="Events of all teams.")] = False,
    severity: Severity = "",
    description: Description = None,
    message_format: Format = "",
    language: Language = "",
    digest_minutes: Digest = None,
    quiet: Quiet = "",
    reason: Reason = "",
) -> None:
    """Change the options given."""
    if events and all_events:
        raise CommandFailed("--all-events and --event exclude each other. Leave one out.", Exit.USAGE)
    body: dict[str, Any] = {"url": url} if url else {}
    body |= {"events": events or []} if events or all_events else {}
    body |= {"teams": teams or []} if teams or all_teams else {}
    body |= {"severity": severity} if severity else {}
    body |= {} if description is None else {"description": description}
    body |= _of_messages(message_format, language, digest_minutes, quiet)
    if not body:
        raise CommandFailed(
            "Nothing to change: give --url, --event, --only-team, --severity or another option.",
            Exit.USAGE,
        )
    _change(context_of(typer_context), number, body, reason)


def _of_messages(
    message_format: str, language: str, digest_minutes: int | None, quiet: str
) -> dict[str, Any]:
    """Return what the options say of messages."""
    found: dict[str, Any] = {"format": message_format, "language": language}
    found = {name: value for name, value in found.items() if value}
    if digest_minutes is not None:
        found["digest_minutes"] = digest_minutes
    if quiet:
        hours, _, zone = quiet.partition(" ")
        begin, _, end = hours.partition("-")
        is_none = quiet == "none"
        found["quiet_hours"] = None if is_none else {"from": begin, "until": end, "zone": zone or "UTC"}
    return found


@app.command("enable")
def enable(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Enable a webhook; its failure count is reset."""
    _change(context_of(typer_context), number, {"enabled": True}, reason)


@app.command("disable")
@confirmed("Disable webhook {number} and discard its pending deliveries?")
def disable(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Disable a webhook; pending deliveries are discarded."""
    _change(context_of(typer_context), number, {"enabled": False}, reason)


def _deletion(context: CliContext, given: dict[str, Any]) -> str:
    webhook = context.client.get(at("webhooks", given["number"]))
    return f"Delete webhook {webhook['id']} to {webhook['url']} with its deliveries?"


@app.command("delete")
@confirmed(_deletion)
def delete(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Delete a webhook with its deliveries."""
    context = context_of(typer_context)
    context.client.delete(at("webhooks", number), reason=reason)
    context.tell({"id": number, "deleted": True}, f"Webhook {number} is deleted.")


@app.command("test")
def send_test(
    typer_context: typer.Context,
    number: Number,
    wait: Wait = True,
    timeout: Timeout = 60,
) -> None:
    """Send a test event; exit 0 when it is delivered, 1 when it is not."""
    _send(context_of(typer_context), number, at("webhooks", number, "test"), wait=wait, timeout=timeout)


@app.command("replay")
def replay(
    typer_context: typer.Context,
    number: Number,
    delivery: DeliveryNumber,
    wait: Wait = True,
    timeout: Timeout = 60,
) -> None:
    """Resend a delivery under the same webhook-id; exit 0 when it is delivered, 1 when it is not."""
    address = at("webhooks", number, "deliveries", delivery, "replay")
    _send(context_of(typer_context), number, address, wait=wait, timeout=timeout)


@app.command("deliveries")
def deliveries(
    typer_context: typer.Context,
    number: Number,
    state: Annotated[str, typer.Option("--state", help="pending, failed, delivered or given_up.")] = "",
    type: Annotated[str, typer.Option("--type", help="Only of this event type, such as alias.moved.")] = "",
    limit: Limit = 20,
) -> None:
    """List the deliveries of the last 30 days, newest first."""
    context = context_of(typer_context)
    asked = {"state": state, "type": type, "limit": limit}
    rows = context.client.get(at("webhooks", number, "deliveries"), **asked)["results"]
    context.rows(rows, DELIVERY_COLUMNS)


@app.command("delivery")
def delivery(typer_context: typer.Context, number: Number, delivery: DeliveryNumber) -> None:
    """Show a delivery: its body and every response."""
    context = context_of(typer_context)
    found = context.client.get(at("webhooks", number, "deliveries", delivery))
    context.tell(found, f"{found['message_id']} {found['type']} is {found['state']}")
    context.tabulate(found["history"], TRY_COLUMNS)
    context.say(orjson.dumps(found["body"], option=orjson.OPT_INDENT_2).decode())


def _issue(context: CliContext, address: ApiPath, body: Document) -> None:
    # No retry under an idempotency key: a secret is never told twice.
    webhook = context.client.post(address, body)
    context.show(webhook)
    context.progress.print(f"Webhook {webhook['id']}; signing secret, shown only once:", markup=False)
    context.say_secret(webhook["secret"])


def _change(context: CliContext, number: int, body: Document, reason: str) -> None:
    webhook = context.client.patch(at("webhooks", number), body | ({"reason": reason} if reason else {}))
    context.show(webhook)
    _tell(context, webhook)


def _send(context: CliContext, number: int, address: ApiPath, *, wait: bool, timeout: float) -> None:
    sent = context.client.create(address, {})
    if wait:
        one = at("webhooks", number, "deliveries", sent["id"])
        sent = until_over(context, sent, one, is_open=lambda row: row["state"] == "pending", timeout=timeout)
    context.show(sent)
    told = f"Delivery {sent['id']} is {sent['state']}: {_answer(sent)}".rstrip(": ")
    if wait and sent["state"] != "delivered":
        raise CommandFailed(told, Exit.FAILED)
    context.say(told)


def _tell(context: CliContext, webhook: Document) -> None:
    heard = f"receives {', '.join(webhook['events']) or 'all events'} of {_whose(webhook)}"
    context.say(f"Webhook {webhook['id']}, {webhook['url']}, {heard}; {_state(webhook)}")


def _whose(webhook: Document) -> str:
    teams = ", ".join(webhook["teams"]) or webhook["team"] or "all teams"
    return f"{teams} for {webhook['person']}" if webhook["person"] else teams


def _state(webhook: Document) -> str:
    if not webhook["enabled"]:
        return f"disabled: {webhook['disabled_why']}"
    return f"failing since {webhook['failing_since']}" if webhook["failing_since"] else "enabled"


def _answer(delivery: Document) -> str:
    last = delivery["history"][-1] if delivery["history"] else {}
    return f"{last.get('status') or ''} {last.get('error') or last.get('answer') or ''}".strip()
