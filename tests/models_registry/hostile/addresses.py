"""Addresses that lead into our own network, in every spelling, or into no network at all."""

from tests.webhooks.test_destination import HOSTILE as WEBHOOKS

INWARD = [url for url in WEBHOOKS if "@" not in url]
"""No webhook goes there, and no hub redirects there."""

REDIRECTS = {
    "http://169.254.169.254/latest/meta-data": "lies in a private network",
    "http://[::ffff:127.0.0.1]:1/x": "lies in a private network",
    "http://2130706433:1/x": "lies in a private network",
    "http://0x7f000001:1/x": "lies in a private network",
    "http://[64:ff9b::a00:1]:1/x": "lies in a private network",
    "http://[2002:7f00:1::]:1/x": "lies in a private network",
    "http://168.63.129.16:1/x": "lies in a private network",
    "http://localhost:1/x": "lies in a private network",
    "file:///etc/passwd": "redirects from http to file",
    "gopher://127.0.0.1:6379/_FLUSHALL": "redirects from http to gopher",
}
"""By where a hub says that a file lies: part of the reason."""

ENDPOINTS = [
    "http://169.254.169.254",
    "http://[::ffff:127.0.0.1]",
    "http://2130706433",
    "http://localhost:6379",
    "file:///etc",
    "https://huggingface.co.evil.example.org",
    "https://huggingface.co@169.254.169.254",
    "https://huggingface.co/../..",
    "javascript:alert(1)",
    "",
]
"""That the operator has not named as hubs."""
