"""Webhooks out: signed by https://www.standardwebhooks.com, sent to addresses that are not ours.

What is sent to whom, and who may say so, is `accounts`': here is how it is signed, where it may go, and when
it is tried again.
"""
