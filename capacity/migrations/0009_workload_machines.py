import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("capacity", "0008_kafka"),
    ]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="machines",
            field=models.PositiveSmallIntegerField(
                db_default=1,
                default=1,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(64),
                ],
            ),
        ),
    ]
