"""A page to try a service out, made from its OpenAPI document in the browser."""

from pathlib import Path

PAGE = Path(__file__).with_name("try_page.html").read_bytes()
