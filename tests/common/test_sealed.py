"""Stored secrets open with the key and for the purpose they were sealed with, and with nothing else."""

import pytest

from common.sealed import CannotUnseal, seal, unseal


def test_what_is_sealed_can_be_read_again_and_does_not_show() -> None:
    sealed = seal("hf_secret", purpose="hub")
    assert "hf_secret" not in sealed
    assert seal("hf_secret", purpose="hub") != sealed
    assert unseal(sealed, purpose="hub") == "hf_secret"


def test_another_purpose_does_not_open_it() -> None:
    with pytest.raises(CannotUnseal):
        unseal(seal("hf_secret", purpose="hub"), purpose="webhook")


def test_a_replaced_key_still_opens_it_as_a_fallback_and_not_without(settings) -> None:
    sealed = seal("hf_secret", purpose="hub")
    old, settings.SECRET_KEY = settings.SECRET_KEY, "another key of the house, as long as it should be"
    with pytest.raises(CannotUnseal, match="SECRET_KEY"):
        unseal(sealed, purpose="hub")
    settings.SECRET_KEY_FALLBACKS = [old]
    assert unseal(sealed, purpose="hub") == "hf_secret"


@pytest.mark.parametrize("damaged", ["", "no box at all", "gAAAA"])
def test_what_is_damaged_is_refused(damaged: str) -> None:
    with pytest.raises(CannotUnseal):
        unseal(damaged, purpose="hub")
