"""How many GPUs a machine must have."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from accounts.actors import of_request
from clusters.models import Node
from common.errors import Invalid
from common.pages.access import signed_in
from common.pages.answers import done, refusals_at_the_form
from common.pages.forms import reason_of
from gpu_health.forms import ExpectedGpusForm
from gpu_health.services.gpu_counts import expect_gpus


@require_POST
@signed_in
@refusals_at_the_form
def expect(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    node = get_object_or_404(Node.objects.for_actor(actor).select_related("cluster__team"), pk=pk)
    form = ExpectedGpusForm(request.POST)
    if not form.is_valid():
        raise Invalid(fields={name: list(map(str, words)) for name, words in form.errors.items()})
    expect_gpus(actor=actor, node=node, count=form.cleaned_data["count"], reason=reason_of(request))
    return done(
        request,
        _("The expected GPUs of %(node)s are changed.") % {"node": node.name},
        to=f"/fleet/nodes/{node.pk}/",
    )
