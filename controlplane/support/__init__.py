"""The support bundle: what somebody who cannot log in here needs to see, without a secret."""
