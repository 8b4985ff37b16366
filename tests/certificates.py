"""Certificates that no system trusts."""

import subprocess
from pathlib import Path


def self_signed(certificate: Path, key: Path, *, of: str) -> None:
    """Write a certificate and its key. `of`: who has it, as `IP:127.0.0.1` or `DNS:slipway.example.org`."""
    made = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=tests -addext subjectAltName={of}"
    files = ["-keyout", key, "-out", certificate]
    subprocess.run(["openssl", *made.split(), *files], check=True, capture_output=True)
