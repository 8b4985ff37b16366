from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def mark_by_inode(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    findings = apps.get_model("models_registry", "Finding")._default_manager.using(schema_editor.connection.alias)
    for pk, inode in findings.filter(inode__isnull=False).values_list("pk", "inode"):
        findings.filter(pk=pk).update(mark=str(inode))


class Migration(migrations.Migration):

    dependencies = [
        ("models_registry", "0013_exports"),
    ]

    operations = [
        migrations.AddField(
            model_name="finding",
            name="mark",
            field=models.CharField(blank=True, default="", editable=False, max_length=200),
            preserve_default=False,
        ),
        migrations.RunPython(mark_by_inode, migrations.RunPython.noop, elidable=True),
        migrations.RemoveField(model_name="finding", name="inode"),
    ]
