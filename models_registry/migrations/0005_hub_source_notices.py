from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0004_hub_source_releases")]

    operations = [
        migrations.AddField(
            model_name="hubsource",
            name="notice_hash",
            field=models.CharField(blank=True, editable=False, max_length=64),
        ),
    ]
