from django.db import migrations, models

from common.database.operations import AddIndexWithoutLock


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("clusters", "0004_memory_of_the_fleet"),
    ]

    operations = [
        AddIndexWithoutLock(
            model_name="agenttoken",
            index=models.Index(fields=["cluster", "node_uid"], name="agent_token_by_machine"),
        ),
    ]
