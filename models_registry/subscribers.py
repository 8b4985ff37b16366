from models_registry.services.signature_verification import verify_by
from trust.events import KeyTrusted
from trust.models import TrustedKey


def verify_signatures(event: KeyTrusted) -> None:
    """Verify in the same transaction: what the key has signed is to be found out."""
    verify_by(TrustedKey.objects.get(pk=event.key_id))
