"""The database itself refuses to change or delete what is on record."""

from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation

REASON = "The audit record is append-only."
FUNCTION = "slipway_append_only"


class RefuseChanges(Operation):
    """Triggers on a table that let rows be added alone. Who owns it can remove them: docs/PRODUCTION.md."""

    reversible = True
    reduces_to_sql = True

    def __init__(self, table: str) -> None:
        self.table = table

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Models know nothing of it."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        for statement in statements(self.table, schema_editor.connection.vendor):
            schema_editor.execute(statement)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"DROP FUNCTION IF EXISTS {FUNCTION}() CASCADE")
        else:
            for event in ("update", "delete"):
                schema_editor.execute(f"DROP TRIGGER IF EXISTS {self.table}_no_{event}")

    def describe(self) -> str:
        return f"Refuse changes of {self.table}"


def statements(table: str, vendor: str) -> list[str]:
    """SQL that makes the triggers. `table` is a name of ours."""
    if vendor != "postgresql":
        return [
            f"CREATE TRIGGER {table}_no_{event} BEFORE {event} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{REASON}'); END"
            for event in ("update", "delete")
        ]
    return [
        f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{REASON}' USING ERRCODE = 'restrict_violation'; END $$",
        f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {FUNCTION}()",
    ]
