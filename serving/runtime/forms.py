"""Forms and uploads, read from a whole body."""

from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl

from serving.runtime.errors import Problem


def read_form(content_type: str, body: bytes) -> dict[str, Any]:
    """Fields as text and files as bytes, by name. Raises Problem (400)."""
    if content_type.startswith("application/x-www-form-urlencoded"):
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    if not content_type.startswith("multipart/form-data"):
        raise Problem(415, "Unsupported media type", "Send multipart/form-data or an urlencoded form.")
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    message = BytesParser(policy=HTTP).parsebytes(head + body)
    if not message.is_multipart():
        raise Problem(400, "Malformed body", "The form has not the boundary that its header names.")
    fields: dict[str, Any] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        if not isinstance(name, str):
            raise Problem(400, "Malformed body", "A part of the form has no name.")
        payload = part.get_payload(decode=True)
        content = payload if isinstance(payload, bytes) else b""
        fields[name] = content if part.get_filename() is not None else content.decode("utf-8", "replace")
    return fields
