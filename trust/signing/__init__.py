"""Signatures of versions, by OpenSSF Model Signing v1: what `model_signing verify key` takes, and makes.

https://github.com/ossf/model-signing-spec. A bundle of Sigstore holds a DSSE envelope with an in-toto
statement that lists each file with its sha256. Those are in our manifest already, so nothing is hashed a
second time; and so this is written here: the library can only sign a directory that it reads.
"""
