"""What tests of the registry's pages ask with and look at."""

from django.http import HttpResponse

PART = {"HX-Request": "true"}


def text_of(answer: HttpResponse) -> str:
    return answer.content.decode()
