"""Operations of migrations that leave an installation at work (docs/MIGRATIONS.md)."""

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import AddIndex


class AddIndexWithoutLock(AddIndexConcurrently):
    """Nobody waits who writes to the table. In a migration with `atomic = False`.

    Interrupted, PostgreSQL keeps an index that is not valid: what is left of an earlier try goes first.
    """

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, *states: Any
    ) -> None:
        args = (app_label, schema_editor, *states)
        if schema_editor.connection.vendor != "postgresql":
            AddIndex.database_forwards(self, *args)
            return
        with schema_editor.connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            (patience,) = cursor.fetchone()
            # Nobody waits behind this: it waits itself, until transactions that began before are over.
            cursor.execute("SET lock_timeout = 0")
        try:
            name = schema_editor.quote_name(self.index.name)
            schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            super().database_forwards(*args)
        finally:
            with schema_editor.connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, false)", [patience])

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, *states: Any
    ) -> None:
        args = (app_label, schema_editor, *states)
        if schema_editor.connection.vendor != "postgresql":
            AddIndex.database_backwards(self, *args)
            return
        super().database_backwards(*args)
