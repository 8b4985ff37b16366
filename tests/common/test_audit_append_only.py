"""The record is append-only in the database itself, and every place where it was changed is named."""

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from common import audit
from common.audit import append_only, heads
from common.models import AuditRecord
from tests.common.test_audit import write

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def test_the_database_refuses_to_change_or_delete_rows_and_takes_new_ones():
    write(2)
    # The tests' own database is made without migrations.
    with connection.cursor() as cursor:
        for statement in append_only.statements(AuditRecord._meta.db_table, connection.vendor):
            cursor.execute(statement)
    rows = AuditRecord.objects.filter(seq=1)
    for change in (rows.delete, lambda: rows.update(reason="kinder")):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            change()
    write(1)
    assert audit.verify().checked == 3


def test_the_migration_makes_the_triggers():
    from importlib import import_module

    from common.migrations import __name__ as package

    operations = import_module(f"{package}.0001_initial").Migration.operations
    assert [one.table for one in operations if isinstance(one, append_only.RefuseChanges)] == [
        "common_auditrecord"
    ]


def status() -> int:
    try:
        call_command("verify_audit")
    except CommandError as error:
        return error.returncode
    return 0


def test_every_broken_row_is_named(capsys):
    write(9)
    AuditRecord.objects.filter(seq__in=[2, 5]).update(reason="kinder")
    AuditRecord.objects.filter(seq=7).delete()
    AuditRecord.objects.filter(seq=9).update(signature="x" * 43)
    verdict = audit.verify()
    assert [(fault.seq, fault.kind) for fault in verdict.faults] == [
        (2, "altered"),
        (5, "altered"),
        (7, "missing"),
        (9, "signature"),
    ]
    assert (verdict.checked, status()) == (1, 3)
    told = capsys.readouterr().err
    assert all(f"Row {seq} " in told for seq in (5, 7, 9))


def test_the_exit_status_says_what_kind_of_fault_it_is(tmp_path, settings):
    settings.SLIPWAY_HOME = tmp_path
    write(3)
    assert status() == 2
    head = heads.current()
    assert head is not None
    heads.append(head)
    assert status() == 0
    AuditRecord.objects.filter(seq=3).update(signature="", key_id="")
    heads.file().write_text("")
    assert status() == 5
    AuditRecord.objects.filter(seq=3).delete()
    assert status() == 4
