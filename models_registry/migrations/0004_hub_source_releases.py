import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0003_hub_sources"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="hubsource",
            name="release_to",
            field=models.CharField(blank=True, max_length=50),
        ),
        migrations.AddField(
            model_name="hubsource",
            name="release_plan",
            field=models.CharField(blank=True, max_length=60),
        ),
        migrations.AddField(
            model_name="hubsource",
            name="released_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
