import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models
from django.db.models import Count, OuterRef, Subquery, Sum


def keep_what_lists_ask_for(apps, schema_editor):
    """The models of tags, and what models tell of their ready versions."""
    model, version, tag = (
        apps.get_model("models_registry", name) for name in ("Model", "Version", "VersionTag")
    )
    tag.objects.update(model=Subquery(version.objects.filter(pk=OuterRef("version")).values("model")[:1]))
    ready = version.objects.filter(state="ready")
    totals = {
        row["model"]: row
        for row in ready.values("model").order_by().annotate(versions=Count("pk"), bytes=Sum("size_bytes"))
    }
    rows = list(model.objects.filter(pk__in=totals).only("pk", "latest"))
    newest = version.objects.filter(pk__in=[row.latest_id for row in rows]).only(
        "architecture", "parameters", "facts"
    )
    by_pk = {one.pk: one for one in newest}
    for row in rows:
        row.ready_versions, row.ready_bytes = totals[row.pk]["versions"], totals[row.pk]["bytes"]
        if latest := by_pk.get(row.latest_id):
            row.architecture, row.parameters = latest.architecture, latest.parameters
            row.weights = (latest.facts or {}).get("format", "")
    told = ["ready_versions", "ready_bytes", "architecture", "parameters", "weights"]
    model.objects.bulk_update(rows, told, batch_size=500)
    # PostgreSQL changes no table whose rows still wait for a check of their keys.
    schema_editor.connection.check_constraints()


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0014_finding_mark"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Evaluation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                ("dataset", models.CharField(blank=True, max_length=200)),
                ("value", models.FloatField(null=True)),
                ("unit", models.CharField(blank=True, max_length=20)),
                ("is_higher_better", models.BooleanField(null=True)),
                ("link", models.CharField(blank=True, max_length=1000)),
                ("recorded_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("recorded_by", models.CharField(max_length=200)),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="models_registry.version",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["version", "dataset", "name", "-id"], name="evaluation_newest")
                ],
            },
        ),
        migrations.AddField("model", "architecture", models.CharField(blank=True, editable=False, max_length=200)),
        migrations.AddField("model", "parameters", models.BigIntegerField(blank=True, editable=False, null=True)),
        migrations.AddField("model", "ready_bytes", models.BigIntegerField(default=0, editable=False)),
        migrations.AddField("model", "ready_versions", models.PositiveIntegerField(default=0, editable=False)),
        migrations.AddField("model", "weights", models.CharField(blank=True, editable=False, max_length=20)),
        migrations.AddIndex(
            "version",
            models.Index(
                fields=["parent"], condition=models.Q(parent__isnull=False), name="version_children"
            ),
        ),
        migrations.RemoveIndex("versiontag", "version_tag_name"),
        migrations.AddField(
            "versiontag",
            "model",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="models_registry.model",
            ),
        ),
        migrations.RunPython(keep_what_lists_ask_for, migrations.RunPython.noop),
        migrations.AlterField(
            "versiontag",
            "model",
            models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="models_registry.model"
            ),
        ),
        migrations.AddIndex(
            "versiontag", models.Index(fields=["model", "name"], name="version_tag_of_model")
        ),
    ]
