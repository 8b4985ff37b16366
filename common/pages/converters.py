"""Kinds of parts of addresses, beside Django's own."""

from django.urls import register_converter


class NameConverter:
    """`<name:model>`: a name that people give. None begins with a plus sign, which the console's own parts of
    addresses do (`models/+store/`), so that no order of apps decides which of the two is meant."""

    regex = "[^/+][^/]*"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(NameConverter, "name")
