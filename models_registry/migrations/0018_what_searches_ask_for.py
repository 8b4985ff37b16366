from django.db import migrations, models
from django.db.models import OuterRef, Q, Subquery, Value
from django.db.models.functions import Concat, Lower


def keep_what_searches_ask_for(apps, schema_editor):
    """Which tags are those of ready versions, and when each model's newest one became ready."""
    model, version, tag = (
        apps.get_model("models_registry", name) for name in ("Model", "Version", "VersionTag")
    )
    tag.objects.filter(version__state="ready").update(is_ready=True)
    newest = version.objects.filter(pk=OuterRef("latest")).values("ready_at")[:1]
    model.objects.exclude(latest=None).update(newest_at=Subquery(newest))
    # PostgreSQL changes no table whose rows still wait for a check of their keys.
    schema_editor.connection.check_constraints()


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0017_sync_cause")]

    operations = [
        migrations.AddField(
            model_name="model",
            name="newest_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="model",
            name="words",
            field=models.GeneratedField(
                db_persist=True,
                expression=Lower(
                    Concat(
                        *("name", Value(" "), "task", Value(" "), "description", Value(" "), "architecture"),
                        output_field=models.TextField(),
                    )
                ),
                output_field=models.TextField(),
            ),
        ),
        migrations.AddField(
            model_name="versiontag",
            name="is_ready",
            field=models.BooleanField(default=False),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name="version",
            name="model",
            field=models.ForeignKey(
                on_delete=models.deletion.PROTECT, related_name="versions", to="models_registry.model"
            ),
        ),
        migrations.RunPython(keep_what_searches_ask_for, migrations.RunPython.noop),
        migrations.RemoveIndex(model_name="versiontag", name="version_tag_of_model"),
        migrations.RemoveIndex(model_name="versiontag", name="version_tag_by_name"),
        migrations.AddIndex(
            model_name="versiontag",
            index=models.Index(
                condition=Q(("is_ready", True)), fields=["model", "name"], name="ready_tag_of_model"
            ),
        ),
        migrations.AddIndex(
            model_name="versiontag",
            index=models.Index(
                condition=Q(("is_ready", True)), fields=["name", "model"], name="ready_tag_by_name"
            ),
        ),
    ]
