"""The names of the console's static files, as they were collected."""

from django.conf import settings
from whitenoise.storage import CompressedManifestStaticFilesStorage


class NoStaticFiles(Exception):
    """No static files were collected; the message says what to do."""


class CollectedFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    def stored_name(self, name: str) -> str:
        """Raises NoStaticFiles; ValueError for one that is not among them."""
        if not self.hashed_files:
            raise NoStaticFiles(
                f"There are no static files in {settings.STATIC_ROOT}. Run `slipway-server prepare`, "
                "then start this process anew."
            )
        return str(super().stored_name(name))
