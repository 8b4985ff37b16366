from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("releases", "0001_initial")]
    operations = [migrations.AddField("release", "urgency", models.IntegerField(db_default=0))]
