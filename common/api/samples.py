"""Values that examples of several apps show."""

DIGEST = "5b0c3f0f7d0c6d4de1b58f2b2f4f3a7d7c6a1a2a3a4a5a6a7a8a9aaabacadaea"


FINGERPRINT = "9f0c6d1d7d3c8f2c5e1a4b7d6f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2"
