"""Signatures are those of Standard Webhooks."""

from base64 import b64decode

import pytest

from common.webhooks import signing


def test_the_signature_is_the_one_that_the_specifications_own_libraries_compute() -> None:
    found = signing.sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body=b'{"test": 2432232314}',
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_new_secret_is_long_enough_and_never_the_same() -> None:
    one, other = signing.new_secret(), signing.new_secret()
    assert one != other
    assert 24 <= len(b64decode(one.removeprefix("whsec_"))) <= 64


def test_two_secrets_in_force_make_two_signatures() -> None:
    secrets = [signing.new_secret(), signing.new_secret()]
    given = signing.headers(secrets, message_id="msg_1", timestamp=5, body=b"{}")
    assert given["webhook-signature"].split(" ") == [
        signing.sign(secret, message_id="msg_1", timestamp=5, body=b"{}") for secret in secrets
    ]


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_?", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
def test_what_is_no_secret_signs_nothing(secret: str) -> None:
    with pytest.raises(ValueError, match="whsec_"):
        signing.sign(secret, message_id="msg_1", timestamp=5, body=b"{}")
