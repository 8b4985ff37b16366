from common import errors


class BadAssertion(errors.SlipwayError):
    """A signed token is not acceptable; the sentence says why, for the audit record, not for its sender."""


class ExchangeRefused(errors.NotAllowed):
    """A token of a CI system is not accepted."""


class ProviderUnavailable(errors.Unavailable):
    """The identity provider does not answer, or not as it should."""
