"""Stores of versions' bytes: content-addressed, each content once, published whole or not at all.

No Django in here: the importer, which reads what nobody trusts, runs without it.
"""
