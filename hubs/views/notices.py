"""What hubs send of their own accord: without a session or a token, with a secret of the source."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from hubs.errors import UnknownHubSource
from hubs.services import notices


@csrf_exempt
@require_POST
def hub_notice(request: HttpRequest, pk: int) -> HttpResponse:
    """A webhook of Hugging Face. What it says is not read: the hub itself is asked what is new."""
    try:
        notices.take_notice(source_id=pk, secret=request.headers.get("X-Webhook-Secret", ""))
    except UnknownHubSource as error:
        return HttpResponse(f"{error}\n", status=404, content_type="text/plain; charset=utf-8")
    return HttpResponse(status=202)
