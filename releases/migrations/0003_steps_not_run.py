from django.db import migrations, models


def name_how_steps_ended(apps, schema_editor):
    """A step that was cut short was called skipped, as were those after it."""
    step = apps.get_model("releases", "ReleaseStep")
    skipped = step.objects.filter(state="skipped")
    for halt, state in (("reject", "rejected"), ("abort", "aborted")):
        skipped.filter(ended_at__isnull=False, release__halt=halt).update(state=state)
    skipped.update(state="not_run")


class Migration(migrations.Migration):
    dependencies = [("releases", "0002_images")]

    operations = [
        migrations.AlterField(
            model_name="releasestep",
            name="state",
            field=models.CharField(
                choices=[
                    ("pending", "Pending"),
                    ("running", "Running"),
                    ("done", "Done"),
                    ("failed", "Failed"),
                    ("aborted", "Aborted"),
                    ("rejected", "Rejected"),
                    ("not_run", "Not run"),
                ],
                default="pending",
                max_length=10,
            ),
        ),
        migrations.RunPython(name_how_steps_ended, migrations.RunPython.noop),
    ]
