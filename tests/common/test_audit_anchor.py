"""What the chain alone cannot show: its end cut off, or all of it written anew. Signatures and heads do."""

import stat
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from accounts.models import AuditExport, WebhookEndpoint, WebhookEvent
from accounts.reconcilers.audit_heads import AuditExportReconciler
from common import audit
from common.audit import heads, signing
from common.audit.chain import GENESIS, hash_of
from common.models import AuditHead, AuditRecord
from common.reconcile import Kernel
from tests.common.test_audit import write

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_home(settings, tmp_path: Path) -> None:
    settings.SLIPWAY_HOME = tmp_path


def export() -> heads.ChainHead:
    head = heads.current()
    heads.append(head)
    return head


def cut_after(seq: int) -> None:
    """Delete later records and turn the head back, as whoever can write to the database does."""
    AuditRecord.objects.filter(seq__gt=seq).delete()
    AuditHead.objects.update(seq=seq, hash=AuditRecord.objects.get(seq=seq).hash)


def rewrite_from(seq: int, *, signed: bool) -> None:
    """Every row from there on with a kinder reason and hashes that fit."""
    before = AuditRecord.objects.filter(seq=seq - 1).first()
    previous = before.hash if before else GENESIS
    for row in AuditRecord.objects.filter(seq__gte=seq).order_by("seq"):
        row.reason, row.previous_hash = "a kinder one", previous
        row.hash = previous = hash_of(row)
        if signed:
            row.key_id, row.signature = signing.sign(row.hash)
        row.save()
    AuditHead.objects.update(hash=previous)


def reason() -> str:
    broken = audit.verify().broken
    return broken.reason if broken else ""


def test_it_says_exactly_what_is_proven() -> None:
    assert audit.verify().proven == "There are no entries."
    write(3)
    assert audit.verify().proven.startswith("Entries 1 to 3 are chained and signed. No exported head was")
    head = export()
    moment = f"{head.at:%Y-%m-%d %H:%M:%S} UTC"
    assert audit.verify().proven == f"Entries 1 to 3 are unchanged since their head was exported on {moment}."
    write(2)
    verdict = audit.verify()
    assert verdict.intact
    assert (verdict.anchor, verdict.checked) == (head, 5)
    assert f"exported on {moment}. Entries 4 to 5 are chained and signed. No exported head" in verdict.proven


def test_an_end_that_was_cut_off_is_found_up_to_the_last_export() -> None:
    write(3)
    export()
    write(2)
    cut_after(4)
    assert audit.verify().intact, "row 5 was in no exported head: the verdict promised no more"
    cut_after(2)
    assert reason().startswith("Rows 3 to 3 are gone: their head was exported on ")
    with pytest.raises(CommandError, match=r"are gone.*2 rows hold"):
        call_command("verify_audit")


def test_who_has_the_database_but_no_key_can_write_nothing() -> None:
    write(5)
    rewrite_from(3, signed=False)
    assert reason() == "Row 3 was written without the key: its signature is wrong."
    AuditRecord.objects.filter(seq__gte=3).update(signature="", key_id="")
    assert reason() == "Row 3 is not signed, though signing had begun."


def test_who_has_the_key_too_is_found_by_the_exported_heads() -> None:
    write(4)
    export()
    write(2)
    rewrite_from(2, signed=True)
    assert reason().startswith("Row 4 is not the one whose head was exported on ")


def test_who_has_the_file_too_is_found_by_a_copy_of_it_from_elsewhere(tmp_path: Path, capsys) -> None:
    write(4)
    export()
    elsewhere = tmp_path / "copied.jsonl"
    elsewhere.write_bytes(heads.file().read_bytes())
    call_command("verify_audit", heads=elsewhere)
    assert "Entries 1 to 4 are unchanged since" in capsys.readouterr().out
    heads.file().unlink()
    rewrite_from(1, signed=True)
    export()
    assert audit.verify().intact
    with pytest.raises(CommandError, match="Row 4 is not the one"):
        call_command("verify_audit", heads=elsewhere)


def test_a_file_that_holds_no_head_is_refused(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.txt"
    nothing.write_text("[1]\nhello\n")
    with pytest.raises(CommandError, match="holds no exported head"):
        call_command("verify_audit", heads=nothing)
    with pytest.raises(CommandError, match="missing is missing"):
        call_command("verify_audit", heads=tmp_path / "missing")
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("verify_audit", heads=tmp_path)


def test_a_foreign_key_is_named_in_rows_and_in_heads(settings) -> None:
    write(1)
    ours, settings.SLIPWAY_AUDIT_KEY = settings.SLIPWAY_AUDIT_KEY, "somebody else's" * 3
    write(1)
    foreign = AuditRecord.objects.get(seq=2).key_id
    settings.SLIPWAY_AUDIT_KEY = ours
    assert reason() == f"Row 2 is signed with the key {foreign}, which is not here."
    settings.SLIPWAY_AUDIT_KEY_FALLBACKS = ("somebody else's" * 3,)
    assert audit.verify().intact, "a former key still counts"
    export()
    settings.SLIPWAY_AUDIT_KEY_FALLBACKS, settings.SLIPWAY_AUDIT_KEY = (), "a third key" * 4
    assert reason() == "The exported head of entry 2 is not signed with a key of this installation."


def test_rows_of_before_signing_hold_by_the_rows_that_follow() -> None:
    write(2)
    AuditRecord.objects.update(signature="", key_id="")
    assert "the last is not signed" in audit.verify().proven
    write(1)
    assert audit.verify().intact
    assert audit.verify().signed_until == 3


@pytest.fixture
def kernel() -> Kernel:
    kernel = Kernel(clock=lambda: timezone.now() + timedelta(hours=1))
    kernel.register(AuditExportReconciler())
    return kernel


def export_now(kernel: Kernel) -> AuditExport:
    AuditExport.objects.update(next_at=timezone.now())
    kernel.advance("accounts.auditexport", AuditExport.objects.get().pk)
    return AuditExport.objects.get()


@pytest.mark.django_db(transaction=True)
def test_heads_are_exported_once_each_to_a_private_file_the_log_and_webhooks(kernel, caplog) -> None:
    caplog.set_level("INFO", logger="slipway.audit")
    asked, unasked = (
        WebhookEndpoint.objects.create(url="https://x.example", sealed_secret="x", events=events)
        for events in (["audit.head"], [])
    )
    assert (asked.wants("audit.head"), unasked.wants("audit.head")) == (True, False)
    assert export_now(kernel).seq == 0
    write(2)
    row = export_now(kernel)
    assert (row.seq, row.stuck_at) == (2, None)
    assert row.next_at > timezone.now()
    export_now(kernel)
    (head,) = heads.read(heads.file())
    assert (head.seq, head.is_ours) == (2, True)
    assert stat.S_IMODE(heads.file().stat().st_mode) == 0o600
    assert stat.S_IMODE(heads.file().parent.stat().st_mode) == 0o700
    assert caplog.messages.count(f"Head {head.text}") == 1
    assert WebhookEvent.objects.get().ids == head.document
    assert audit.verify().anchor == head


@pytest.mark.django_db(transaction=True)
def test_a_disk_that_takes_nothing_delays_the_export_and_breaks_nothing(kernel, tmp_path: Path) -> None:
    write(1)
    (tmp_path / "audit").write_text("in the way")
    assert export_now(kernel).seq == 0
    (tmp_path / "audit").unlink()
    heads.file().parent.mkdir()
    heads.file().write_text('{"seq": 1, "cut o')
    row = export_now(kernel)
    assert (row.seq, row.attempts) == (1, 0)
    assert [head.seq for head in heads.read(heads.file())] == [1]
