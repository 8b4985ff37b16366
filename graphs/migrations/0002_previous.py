from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("graphs", "0001_initial")]

    operations = [
        migrations.AddField("graph", "previous", models.JSONField(editable=False, null=True)),
    ]
