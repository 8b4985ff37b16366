"""Messages of Amazon SNS, which prove by a signature whose they are: no token can be sent with them.

Signature version 2 (SHA-256) only, which a topic has to be set to. Documented in "Verifying the signatures of
Amazon SNS messages" of the Amazon SNS developer guide.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts import actors
from accounts.models import User
from common.actor import Actor
from common.errors import NotAllowed, SlipwayError, Unavailable
from common.outbound import faults
from common.outbound.addresses import Address, is_public, true_address
from common.outbound.client import OutboundClient, whole_body

HOST = re.compile(r"sns\.[a-z0-9-]{3,30}\.amazonaws\.com(\.cn)?")
OF_A_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
OF_A_CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
CONFIRMATION = "SubscriptionConfirmation"
FRESH = timedelta(hours=1)
"""SNS tries again for longer; by then its event is long known from elsewhere."""
MAX_BYTES = 64 * 1024


def _judge(host: str, port: int, addresses: Sequence[Address]) -> None:
    if not HOST.fullmatch(host) or port != 443 or not all(is_public(true_address(one)) for one in addresses):
        raise faults.Forbidden(f"{host}:{port} is no address of Amazon SNS.")


client = OutboundClient(_judge)


def sender(message: Mapping[str, Any]) -> Actor:
    """On whose behalf the message is taken: the account that SLIPWAY_GPU_EVENT_TOPICS names for its topic.

    Raises NotAllowed for a message that SNS has not signed, Unavailable while its certificate cannot be had.
    """
    topic = str(message.get("TopicArn", ""))
    account = dict(one.split("=", 1) for one in settings.SLIPWAY_GPU_EVENT_TOPICS).get(topic)
    if account is None:
        raise NotAllowed(_("SLIPWAY_GPU_EVENT_TOPICS does not name this topic."))
    _verify(message)
    user = User.objects.filter(username=account, is_active=True).first()
    if user is None:
        raise NotAllowed(_("There is no account of the name that SLIPWAY_GPU_EVENT_TOPICS gives this topic."))
    return actors.of_user(user)


def confirm(message: Mapping[str, Any]) -> None:
    """Tell SNS that the subscription is wanted. Raises NotAllowed, Unavailable."""
    url = str(message.get("SubscribeURL", ""))
    if not _is_of_sns(url):
        raise NotAllowed(_("SubscribeURL is no address of Amazon SNS."))
    _fetch(url)


def _verify(message: Mapping[str, Any]) -> None:
    if message.get("SignatureVersion") != "2":
        raise NotAllowed(_("Set SignatureVersion of the topic to 2: signatures over SHA-1 are not accepted."))
    try:
        at = datetime.fromisoformat(str(message.get("Timestamp", "")))
        is_fresh = abs(timezone.now() - at) <= FRESH
        signature = base64.b64decode(str(message.get("Signature", "")), validate=True)
    except (ValueError, TypeError, binascii.Error):
        raise NotAllowed(_("The message is not signed as Amazon SNS signs.")) from None
    if not is_fresh:
        raise NotAllowed(_("The message is older than an hour."))
    url = str(message.get("SigningCertURL", ""))
    if not _is_of_sns(url) or not url.endswith(".pem"):
        raise NotAllowed(_("SigningCertURL is no address of Amazon SNS."))
    try:
        _key(url).verify(signature, signed_text(message), PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        raise NotAllowed(_("The signature of the message is wrong.")) from None


def signed_text(message: Mapping[str, Any]) -> bytes:
    """Name and value, a line each, of the fields that are signed; a Subject only if there is one."""
    names = OF_A_CONFIRMATION if message.get("Type") == CONFIRMATION else OF_A_NOTIFICATION
    return "".join(f"{name}\n{message[name]}\n" for name in names if message.get(name) is not None).encode()


def _is_of_sns(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" and HOST.fullmatch(parts.hostname or "") is not None and not parts.username


@lru_cache(maxsize=16)
def _key(url: str) -> RSAPublicKey:
    try:
        certificate = x509.load_pem_x509_certificate(_fetch(url))
    except ValueError:
        raise NotAllowed(_("SigningCertURL leads to no certificate.")) from None
    key = certificate.public_key()
    now = timezone.now()
    if (
        not isinstance(key, RSAPublicKey)
        or not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
    ):
        raise NotAllowed(_("The certificate of Amazon SNS is not valid now."))
    return key


def _fetch(url: str) -> bytes:
    try:
        with client.get(url, secret_headers={}, headers={}) as answers:
            body = whole_body(answers[-1], limit_bytes=MAX_BYTES, limit_seconds=20)
            status = answers[-1].status_code
    except SlipwayError as error:
        raise Unavailable(str(error)) from error
    if status != 200:
        raise Unavailable(_("Amazon SNS answered %(status)s.") % {"status": status})
    return body
