"""`Idempotency-Key`: a creation repeated with the same key and body happens once and gets the same answer.

The claim on a key is committed before the work, so that a second request sees it; the answer is written in
the transaction of the work, so that neither exists without the other. A process that dies in between leaves
a claim whose lease runs out, and the next request with that key does the work. Refusals are not kept: they
changed nothing, and the same key may be tried again. Answers are kept for a day, or for what
`SLIPWAY_KEEP_ANSWERS_DAYS` says, and not replayed after it.
"""

import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

import orjson
from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from common import clock
from common.actor import Actor
from common.api import problems
from common.api.json import JSONRenderer, dumps
from common.errors import Conflict
from common.models import IdempotentAnswer

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LEASE = timedelta(seconds=60)
_KEPT_HEADERS = ("ETag", "Location")
_acceptable = re.compile(r"[\x21-\x7e]{1,255}")


class KeyReused(Conflict):
    """The key came before, with another body."""


class BeingAnswered(Conflict):
    """The first request with this key is still at work."""

    retry_after_s = 1


class SecretShown(Conflict):
    """The answer held a secret, which is shown once."""


problems.register(KeyReused, status=409, title="Idempotency key reused", slug="idempotency-key-reused")
problems.register(BeingAnswered, status=409, title="Request in progress", slug="idempotency-in-flight")
problems.register(SecretShown, status=409, title="Secret already shown", slug="idempotency-secret")


def once(
    request: Request, actor: Actor, work: Callable[[], HttpResponseBase], *, secret: bool = False
) -> HttpResponseBase:
    """`work()`, or the answer that it gave before. `secret`: its answer must not be stored."""
    if (key := request.headers.get(HEADER)) is None:
        return work()
    if not _acceptable.fullmatch(key):
        raise ValidationError({HEADER: [_("Give 1 to 255 visible ASCII characters without spaces.")]})
    claim = _claim(actor, path=request.path, key=key, body_hash=_digest(request.data), secret=secret)
    if claim.status is not None:
        return _replayed(claim)
    try:
        with transaction.atomic():
            response = work()
            succeeded = 200 <= response.status_code < 300
            if succeeded:
                _keep(claim, response)
            else:
                transaction.set_rollback(True)
    except BaseException:
        _let_go(claim)
        raise
    if not succeeded:
        _let_go(claim)
    return response


def answers_before(before: datetime) -> QuerySet[IdempotentAnswer]:
    """Return the answers that were asked for before that moment, and on which nobody works."""
    at_work = Q(status=None, lease_until__gte=before)
    return IdempotentAnswer.objects.filter(created_at__lt=before).exclude(at_work).order_by("created_at")


def _digest(body: object) -> str:
    """Keyed, because a body may hold a password, which a plain hash would give away to guessing."""
    canonical = orjson.dumps(orjson.loads(dumps(body)), option=orjson.OPT_SORT_KEYS)
    return salted_hmac("idempotent body", canonical, algorithm="sha256").hexdigest()


def _claim(actor: Actor, *, path: str, key: str, body_hash: str, secret: bool) -> IdempotentAnswer:
    """This request's own claim, or the answer that is there (its `status` is set)."""
    now = clock.now()
    mine = {"claim": uuid.uuid4().hex, "lease_until": now + LEASE}
    named = {
        "actor": f"token {actor.token_id}" if actor.token_id else f"user {actor.user_id}",
        "path": path,
        "key": key,
    }
    if days := settings.SLIPWAY_KEEP_ANSWERS_DAYS:
        # The promise ends to the second, however late the row is pruned.
        answers_before(now - timedelta(days=days)).filter(**named).delete()
    row, created = IdempotentAnswer.objects.get_or_create(
        **named, defaults={"body_hash": body_hash, "created_at": now, "secret": secret, **mine}
    )
    if created:
        return row
    if row.body_hash != body_hash:
        raise KeyReused(
            _("This %(header)s came before with another body. Use a new key for a new request.")
            % {"header": HEADER}
        )
    if row.status is not None:
        return row
    abandoned = IdempotentAnswer.objects.filter(pk=row.pk, status=None, lease_until__lt=now)
    if not abandoned.update(**mine):
        raise BeingAnswered(
            _("The first request with this %(header)s is still being answered. Repeat this one soon.")
            % {"header": HEADER}
        )
    row.claim = str(mine["claim"])
    return row


def _keep(claim: IdempotentAnswer, response: HttpResponseBase) -> None:
    """Raises BeingAnswered, and so undoes the work, when the lease ran out and another took the claim."""
    body = (
        dumps(response.data).decode() if isinstance(response, Response) and response.data is not None else ""
    )
    kept = IdempotentAnswer.objects.filter(pk=claim.pk, claim=claim.claim, status=None).update(
        status=response.status_code,
        headers={name: response[name] for name in _KEPT_HEADERS if name in response},
        body="" if claim.secret else body,
    )
    if not kept:
        raise BeingAnswered(
            _("Another request with this %(header)s overtook this one. Repeat it soon.") % {"header": HEADER}
        )


def _let_go(claim: IdempotentAnswer) -> None:
    # The lease frees the key anyway; a database that has just failed must not hide the error.
    with suppress(DatabaseError):
        IdempotentAnswer.objects.filter(pk=claim.pk, claim=claim.claim, status=None).delete()


def _replayed(answer: IdempotentAnswer) -> HttpResponse:
    if answer.secret:
        place = answer.headers.get("Location", answer.path)
        raise SecretShown(
            _(
                "The first request with this %(header)s succeeded, and its answer held a secret that "
                "is shown once. If you lost it, delete %(place)s and send the request again with a "
                "new key."
            )
            % {"header": HEADER, "place": place}
        )
    response = HttpResponse(answer.body, status=answer.status, content_type=JSONRenderer.media_type)
    for name, value in answer.headers.items():
        response[name] = value
    response[REPLAYED] = "true"
    return response
