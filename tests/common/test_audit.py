"""The audit chain belongs to the deed, and shows every tampering."""

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.transaction import TransactionManagementError

from common import audit
from common.actor import Actor
from common.models import AuditHead, AuditRecord
from tests.toys.models import Parcel

ANNA = Actor(name="anna", user_id=7, address="10.0.0.5", via="web")


def write(count: int) -> None:
    for number in range(count):
        with transaction.atomic():
            audit.record(
                ANNA, "parcel.post", subject=f"parcel {number}", reason="because", detail={"n": number}
            )


@pytest.mark.django_db
def test_an_untouched_chain_is_intact() -> None:
    write(5)
    verdict = audit.verify()
    assert verdict.intact
    assert verdict.checked == 5


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [
        {"reason": "another"},
        {"actor": "bert"},
        {"detail": {"n": 99}},
        {"action": "parcel.lose"},
        {"user_id": 8},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_altered_row_is_found(change: dict[str, object]) -> None:
    write(5)
    AuditRecord.objects.filter(seq=3).update(**change)
    verdict = audit.verify()
    assert verdict.broken is not None
    assert verdict.broken.seq == 3
    assert verdict.checked == 2


@pytest.mark.django_db
def test_a_row_rewritten_with_a_fitting_hash_and_signature_is_found_at_the_next_one() -> None:
    from common.audit.chain import hash_of
    from common.audit.signing import sign

    write(5)
    row = AuditRecord.objects.get(seq=3)
    row.reason = "a kinder one"
    row.hash = hash_of(row)
    row.key_id, row.signature = sign(row.hash)
    row.save()
    verdict = audit.verify()
    assert verdict.broken is not None
    assert verdict.broken.seq == 4


@pytest.mark.django_db
@pytest.mark.parametrize("seq", [1, 3, 5])
def test_a_missing_row_is_found_also_at_the_end(seq: int) -> None:
    write(5)
    AuditRecord.objects.filter(seq=seq).delete()
    verdict = audit.verify()
    assert verdict.broken is not None
    assert verdict.broken.seq == seq


@pytest.mark.django_db
def test_a_head_that_was_turned_back_is_found() -> None:
    write(5)
    AuditHead.objects.update(seq=0, hash="0" * 64)
    assert not audit.verify().intact


@pytest.mark.django_db
def test_the_command_names_the_broken_row() -> None:
    write(3)
    AuditRecord.objects.filter(seq=2).update(reason="x")
    with pytest.raises(CommandError, match="Row 2 was altered"):
        call_command("verify_audit")


@pytest.mark.django_db
def test_a_deed_without_a_transaction_is_refused() -> None:
    with pytest.raises(TransactionManagementError):
        audit.record(ANNA, "parcel.post", subject="parcel")


@pytest.mark.django_db(transaction=True)
def test_a_failed_audit_write_undoes_the_deed() -> None:
    AuditHead.objects.all().delete()
    with pytest.raises(RuntimeError, match="head of the audit chain"), transaction.atomic():
        parcel = Parcel.objects.create()
        audit.record(ANNA, "parcel.create", subject=parcel)
    assert Parcel.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_a_deed_that_fails_leaves_no_row() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        audit.record(ANNA, "parcel.create", subject="parcel")
        raise ZeroDivisionError
    assert AuditRecord.objects.count() == 0
    assert audit.verify().intact


@pytest.mark.django_db(transaction=True)
def test_concurrent_deeds_queue_into_one_chain() -> None:
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    def deed(_number: int) -> None:
        try:
            write(5)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(deed, range(4)))
    verdict = audit.verify()
    assert verdict.intact
    assert verdict.checked == 20
