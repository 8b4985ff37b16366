"""Texts on their way into rows."""


def storable(text: str) -> str:
    """What others have said, as every database keeps it: without zero bytes and halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
