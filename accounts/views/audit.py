"""The audit record: who did what, when, from where; verified and exported."""

import csv
import io
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import orjson
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import require_POST, require_safe

from accounts import selectors
from accounts.actors import of_request
from accounts.filters import AuditFilter
from accounts.states import Right
from common import audit, clock
from common.models import AuditRecord
from common.pages import subjects
from common.pages.access import signed_in
from common.pages.answers import page
from common.pages.listing import list_page

CHUNK = 1_000
SORTS = {"seq": "seq"}
Encode = Callable[[list[AuditRecord], bool], bytes]
"""Rows, and whether they are the first ones."""


@require_safe
@signed_in
def audit_page(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    if not selectors.may(actor, Right.AUDIT_READ):
        return page(request, "accounts/audit_closed.html", status=403)
    listing = list_page(
        request,
        selectors.audit_records(actor),
        sorts=SORTS,
        default_sort="-seq",
        filters=AuditFilter,
        counted=False,
    )
    pages_of = subjects.addresses(listing.rows)
    tokens = selectors.token_names({row.token_id for row in listing.rows if row.token_id})
    context = {
        "listing": listing,
        "entries": [
            {
                "row": row,
                "noun": subjects.noun_of(row.subject_kind) if row.subject_kind else "",
                "url": pages_of.get((row.subject_kind, row.subject_id), ""),
                "token": tokens.get(row.token_id or 0, ""),
            }
            for row in listing.rows
        ],
        "sees_all": selectors.may_everywhere(actor, Right.AUDIT_READ),
        "query": request.GET.urlencode(),
    }
    return page(request, "accounts/audit.html", context, parts=("listing",))


@require_POST
@signed_in
def verify(request: HttpRequest) -> HttpResponse:
    if not selectors.may(of_request(request), Right.AUDIT_READ):
        return page(request, "accounts/audit_closed.html", status=403)
    context = {"verdict": audit.verify(), "verified_at": clock.now()}
    return page(request, "accounts/audit_verdict.html", context)


@require_safe
@signed_in
def export(request: HttpRequest, kind: str) -> HttpResponseBase:
    """Every row that the filters leave, oldest first, as it is read: `csv`, or `json` with one row a line."""
    actor = of_request(request)
    if not selectors.may(actor, Right.AUDIT_READ):
        return page(request, "accounts/audit_closed.html", status=403)
    rows = AuditFilter(request.GET, queryset=selectors.audit_records(actor), request=request).qs
    encode, content_type = EXPORTS[kind]
    # Under ASGI an ordinary iterator would be read whole before its first byte goes out.
    is_async = isinstance(request, ASGIRequest)
    stream = _stream_later(rows, encode) if is_async else _stream(rows, encode)
    name = f"slipway-audit-{clock.now():%Y%m%d-%H%M%S}.{kind}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingHttpResponse(stream, content_type=content_type, headers=headers)


def _chunk(rows: QuerySet[AuditRecord], after: int) -> list[AuditRecord]:
    return list(rows.filter(seq__gt=after).order_by("seq")[:CHUNK])


def _stream(rows: QuerySet[AuditRecord], encode: Encode) -> Iterator[bytes]:
    found, is_first = _chunk(rows, 0), True
    while found or is_first:
        yield encode(found, is_first)
        is_first = False
        found = _chunk(rows, found[-1].seq) if found else []


async def _stream_later(rows: QuerySet[AuditRecord], encode: Encode) -> AsyncIterator[bytes]:
    read = sync_to_async(_chunk)
    found, is_first = await read(rows, 0), True
    while found or is_first:
        yield encode(found, is_first)
        is_first = False
        found = await read(rows, found[-1].seq) if found else []


def _as_csv(rows: list[AuditRecord], is_first: bool) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    if is_first:
        writer.writerow(shown_columns(AuditRecord()))
    for row in rows:
        columns = shown_columns(row)
        columns["detail"] = orjson.dumps(columns["detail"]).decode()
        columns["at"] = row.at.isoformat()
        writer.writerow(_harmless(value) for value in columns.values())
    return text.getvalue().encode()


def _harmless(value: object) -> object:
    """Spreadsheets run a cell that begins like a formula (OWASP, CSV injection)."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _as_json(rows: list[AuditRecord], _is_first: bool) -> bytes:
    return b"".join(orjson.dumps(shown_columns(row)) + b"\n" for row in rows)


EXPORTS: dict[str, tuple[Encode, str]] = {
    "csv": (_as_csv, "text/csv; charset=utf-8"),
    "json": (_as_json, "application/x-ndjson"),
}


def shown_columns(row: AuditRecord) -> dict[str, Any]:
    """Everything of a row, for exports; `at` in UTC."""
    names = (
        "seq", "at", "actor", "via", "address", "action", "subject_kind", "subject_id", "subject_label",
        "team_id", "reason", "detail", "token_id", "previous_hash", "hash", "key_id", "signature",
    )  # fmt: skip
    return {name: getattr(row, name) for name in names}
