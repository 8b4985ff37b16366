"""Sessions in the database, of which a copy opens none: the table holds a hash of the key in the cookie.

`SESSION_ENGINE = "common.sessions"`. A key has 165 random bits, so that a plain hash protects it.
"""

import hashlib
from base64 import urlsafe_b64encode
from typing import Any

from django.contrib.sessions.backends import db
from django.utils import timezone

_BYTES = 30
"""Of the SHA-256: 40 characters of base64 are what the column holds."""


def stored_key(session_key: str) -> str:
    """Return the table's key for the key that the browser holds."""
    return urlsafe_b64encode(hashlib.sha256(session_key.encode()).digest()[:_BYTES]).decode()


class SessionStore(db.SessionStore):
    """Django's own, except that its keys are hashed on their way to the table and never come back."""

    def _get_session_from_db(self) -> Any:
        found = self._living().first()
        if found is None:
            self._session_key = None
        return found

    async def _aget_session_from_db(self) -> Any:
        found = await self._living().afirst()
        if found is None:
            self._session_key = None
        return found

    def _living(self) -> Any:
        key = stored_key(self.session_key or "")
        return self.model.objects.filter(session_key=key, expire_date__gt=timezone.now())

    def exists(self, session_key: str) -> bool:
        return super().exists(stored_key(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await super().aexists(stored_key(session_key))

    def create_model_instance(self, data: Any) -> Any:
        row = super().create_model_instance(data)
        row.session_key = stored_key(row.session_key)
        return row

    async def acreate_model_instance(self, data: Any) -> Any:
        row = await super().acreate_model_instance(data)
        row.session_key = stored_key(row.session_key)
        return row

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            super().delete(stored_key(key))

    async def adelete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            await super().adelete(stored_key(key))
