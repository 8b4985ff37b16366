"""Queues of Amazon SQS, and of what speaks its protocol.

Requests are of the JSON protocol (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html),
signed by version 4 (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html).
"""

import hashlib
import hmac
import json
from datetime import datetime
from urllib.parse import urlsplit

from capacity.queues.base import QueueAddress, QueueSample, QueueSilent
from capacity.queues.http import post
from common import clock

TARGET = "AmazonSQS.GetQueueAttributes"
WAITING, DELAYED = "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed"
IN_HAND = "ApproximateNumberOfMessagesNotVisible"


class SqsQueue:
    """A queue of SQS. subject: region. secret: `KEY_ID:KEY`; temporary keys add `:SESSION_TOKEN`."""

    def __init__(self, address: QueueAddress) -> None:
        self._address = address

    def sample(self) -> QueueSample:
        parts = urlsplit(self._address.url)
        wish = {"QueueUrl": self._address.url, "AttributeNames": [WAITING, DELAYED, IN_HAND]}
        content = json.dumps(wish).encode()
        headers = signed_headers(parts.netloc, content, self._address, clock.now())
        status, body = post(f"{parts.scheme}://{parts.netloc}/", content, headers)
        try:
            answer = json.loads(body)
            if status != 200:
                kind = str(answer.get("__type", status)).rpartition("#")[2]
                raise QueueSilent(f"SQS refuses: {kind}: {answer.get('message', '')}")
            found = {name: float(value) for name, value in answer["Attributes"].items()}
            return QueueSample(found[WAITING] + found[DELAYED], found[IN_HAND])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise QueueSilent(f"It answers {status}, and not as SQS does.") from None


def signed_headers(host: str, content: bytes, address: QueueAddress, at: datetime) -> dict[str, str]:
    key_id, _, rest = address.secret.partition(":")
    key, _, session = rest.partition(":")
    moment = f"{at:%Y%m%dT%H%M%SZ}"
    headers = {
        "content-type": "application/x-amz-json-1.0",
        "host": host,
        "x-amz-date": moment,
        **({"x-amz-security-token": session} if session else {}),
        "x-amz-target": TARGET,
    }
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(content).hexdigest()}"
    scope = f"{moment[:8]}/{address.subject}/sqs/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    seed = f"AWS4{key}".encode()
    for part in scope.split("/"):
        seed = hmac.digest(seed, part.encode(), "sha256")
    signature = hmac.digest(seed, f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}".encode(), "sha256").hex()
    how = f"AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {name: value for name, value in headers.items() if name != "host"} | {"authorization": how}
