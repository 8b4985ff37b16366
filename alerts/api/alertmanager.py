"""Alertmanager's API v2 as `amtool` and Prometheus speak it, and the receiver of its webhook.

Base address: `/api/v1/alertmanager`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.actors import of_request
from accounts.models import Team
from accounts.selectors import team_named
from accounts.services.rights import require_for_owner
from accounts.states import Right
from alerts.api.serializers import as_alertmanager, silence_as_alertmanager
from alerts.errors import InvalidAlerts, InvalidSilence
from alerts.selectors import alerts_for, silences_for
from alerts.services import care
from alerts.services.outside import take_alerts
from common import clock
from common.api.json import loads
from common.errors import Missing

MOST_SHOWN = 1_000


class _AlertmanagerView(APIView):
    schema = None
    """Its documents are Alertmanager's own."""

    def document(self, request: Request) -> Any:
        return loads(request.body)

    def team(self, request: Request, named: str = "") -> Team | None:
        """Return the owner that `?team=` names, or `named`; None: the installation. Raises NotAllowed."""
        actor, name = of_request(request._request), request.query_params.get("team", named)
        team = team_named(actor, name) if name else None
        require_for_owner(actor, Right.ALERTS_WRITE, team)
        return team


class AlertmanagerWebhook(_AlertmanagerView):
    """Receiver for `webhook_configs` of an Alertmanager."""

    needs: ClassVar = {"post": Right.ALERTS_WRITE}

    def post(self, request: Request) -> Response:
        """Take a message of Alertmanager's webhook: `{"alerts": [...]}`; each alert fires or is resolved."""
        team, document = self.team(request), self.document(request)
        alerts = document.get("alerts") if isinstance(document, dict) else None
        return Response({"taken": _taken(alerts, request, team)})


class AlertmanagerAlerts(_AlertmanagerView):
    """`/api/v2/alerts`"""

    needs: ClassVar = {"post": Right.ALERTS_WRITE}

    def get(self, request: Request) -> Response:
        """List open alerts as Alertmanager does, 1,000 at most."""
        actor = of_request(request._request)
        base, silences = request.build_absolute_uri("/").rstrip("/"), list(silences_for(actor).active())
        rows = alerts_for(actor).open()[:MOST_SHOWN]
        shown = [as_alertmanager(row, base_url=base, silences=silences) for row in rows]
        hidden = {
            state
            for state, name in (("active", "active"), ("suppressed", "silenced"))
            if request.query_params.get(name) == "false"
        }
        wanted = _matching(request)
        return Response(
            [one for one in shown if one["status"]["state"] not in hidden and wanted(one["labels"])]
        )

    def post(self, request: Request) -> Response:
        """Take alerts as Prometheus posts them to an Alertmanager: a list."""
        team = self.team(request)
        return Response({"taken": _taken(self.document(request), request, team)})


class AlertmanagerSilences(_AlertmanagerView):
    """`/api/v2/silences`"""

    needs: ClassVar = {"post": Right.ALERTS_WRITE}

    def get(self, request: Request) -> Response:
        """List silences as Alertmanager does."""
        now = clock.now()
        rows = silences_for(of_request(request._request))[:MOST_SHOWN]
        wanted = _matching(request)
        return Response([silence_as_alertmanager(row, now=now) for row in rows if wanted(row.labels)])

    def post(self, request: Request) -> Response:
        """Create a silence; matchers must be equalities; one of `team` names its owner."""
        given = self.document(request)
        if not isinstance(given, dict):
            raise InvalidSilence(fields={"matchers": [_("Send an object with matchers.")]})
        labels = _labels(given.get("matchers"))
        team = self.team(request, labels.pop("team", ""))
        times = {name: _moment(given, name) for name in ("startsAt", "endsAt")}
        row = care.create_silence(
            actor=of_request(request._request),
            team=team,
            labels=labels,
            starts_at=times["startsAt"],
            ends_at=times["endsAt"],
            reason=str(given.get("comment") or ""),
        )
        return Response({"silenceID": str(row.pk)})


class AlertmanagerSilence(_AlertmanagerView):
    """`/api/v2/silence/{id}`"""

    needs: ClassVar = {"delete": Right.ALERTS_WRITE}

    def get(self, request: Request, pk: int) -> Response:
        """Get a silence as Alertmanager shows it."""
        return Response(silence_as_alertmanager(self._row(request, pk), now=clock.now()))

    def delete(self, request: Request, pk: int) -> Response:
        """End a silence."""
        reason = request.query_params.get("reason", "")[:500]
        care.end_silence(self._row(request, pk), actor=of_request(request._request), reason=reason)
        return Response({})

    def _row(self, request: Request, pk: int) -> Any:
        row = silences_for(of_request(request._request)).filter(pk=pk).first()
        if row is None:
            raise Missing(_("There is no such silence."))
        return row


class AlertmanagerStatus(_AlertmanagerView):
    """`/api/v2/status`"""

    def get(self, request: Request) -> Response:
        """Say that this is one that has no peers."""
        unknown = dict.fromkeys(("version", "revision", "branch", "buildUser", "buildDate", "goVersion"), "")
        return Response(
            {
                "cluster": {"name": "slipway", "status": "disabled", "peers": []},
                "config": {"original": "# Slipway raises alerts by its own checks: /alerts/checks/"},
                "uptime": clock.now().isoformat(),
                "versionInfo": unknown | {"version": "slipway"},
            }
        )


_MATCHER = re.compile(r"""\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("?)(.*?)\3\s*""", re.DOTALL)


def _matching(request: Request) -> Callable[[Mapping[str, str]], bool]:
    """Return whether labels pass all matchers of `?filter=`. Raises InvalidAlerts."""
    wanted = []
    for text in request.query_params.getlist("filter"):
        found = _MATCHER.fullmatch(text)
        if found is None or found[2] in ("=~", "!~"):
            words = _("Only name=value and name!=value are understood: no regular expression.")
            raise InvalidAlerts(fields={"filter": [words]})
        wanted.append((found[1], found[2] == "=", found[4]))
    return lambda labels: all((labels.get(name, "") == value) is same for name, same, value in wanted)


def _taken(alerts: Any, request: Request, team: Team | None) -> int:
    if not isinstance(alerts, list) or not all(isinstance(one, dict) for one in alerts):
        raise InvalidAlerts(fields={"alerts": [_("Send a list of alerts as Alertmanager writes them.")]})
    return take_alerts(alerts, actor=of_request(request._request), team=team)


def _labels(matchers: Any) -> dict[str, str]:
    """Raises InvalidSilence for what is no equality."""
    if not isinstance(matchers, list) or not all(isinstance(one, dict) for one in matchers):
        raise InvalidSilence(fields={"matchers": [_("Send a list of matchers.")]})
    if any(one.get("isRegex") or one.get("isEqual") is False for one in matchers):
        raise InvalidSilence(
            fields={"matchers": [_("Only equalities are understood: no regular expression, no negation.")]}
        )
    return {str(one.get("name", ""))[:100]: str(one.get("value", ""))[:400] for one in matchers}


def _moment(given: dict[str, Any], name: str) -> Any:
    try:
        found = parse_datetime(str(given.get(name) or ""))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidSilence(fields={name: [_("Give a time such as 2026-03-03T14:00Z.")]})
    return found
