"""Real processes: a sweeper that is killed while a receiver thinks, and the one that comes after it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import eventually
from tests.webhooks.receiver import Received, Receiver, Reply

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(180)]
PROJECT = Path(__file__).resolve().parents[2]
MAKE = """
import django, sys
django.setup()
from django.core.management import call_command
call_command("migrate", interactive=False, verbosity=0)
from accounts.services.webhooks import create_webhook, send_test
from common.actor import Actor
actor = Actor.system("test")
for url in sys.argv[1:]:
    send_test(actor=actor, endpoint=create_webhook(actor=actor, url=url).endpoint)
"""
READ = """
import django
django.setup()
from accounts.models import WebhookDelivery
print(*(f"{one.state}:{len(one.history)}" for one in WebhookDelivery.objects.order_by("pk")))
"""


@pytest.fixture
def python(tmp_path) -> Callable[..., subprocess.Popen]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("SLIPWAY_", "DJANGO_"))
    } | {
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded",
        "SLIPWAY_HOME": str(tmp_path),
        "SLIPWAY_WEBHOOK_ALLOWED_HOSTS": "127.0.0.1",
    }
    started: list[subprocess.Popen] = []

    def start(*arguments: str) -> subprocess.Popen:
        command = [sys.executable, *arguments]
        process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_killed_sweepers_delivery_is_sent_again_and_a_slow_receiver_holds_up_nobody(
    python, receiver: Receiver
):
    made = python("-c", MAKE, f"{receiver.url}&who=slow", f"{receiver.url}&who=quick")
    assert made.wait(60) == 0

    def who(got: Received) -> str:
        return got.path.rpartition("=")[2]

    receiver.answer = lambda got: Reply(after_seconds=60 if who(got) == "slow" else 0)
    first = python("manage.py", "sweep")
    eventually(lambda: {who(got) for got in receiver.received} == {"slow", "quick"})
    first.kill()
    assert first.wait() == -9

    receiver.answer = lambda _: Reply()
    python("manage.py", "sweep")
    # The dead one's lease runs for 30 s.
    eventually(lambda: [who(got) for got in receiver.received].count("slow") == 2, seconds=90)
    slow = [got for got in receiver.received if who(got) == "slow"]
    assert slow[0].headers["webhook-id"] == slow[1].headers["webhook-id"]
    assert slow[0].body == slow[1].body

    def states() -> str:
        return python("-c", READ).communicate(timeout=60)[0].strip()

    eventually(lambda: states() == "delivered:1 delivered:1")
