from django.db import migrations, models


def turn_robots_into_machines(apps, schema_editor):
    """The account by which embedded workers report was a superuser that no password opened."""
    User = apps.get_model("accounts", "User")
    robots = User.objects.filter(username="workers", password__startswith="!", tokens__name="heartbeats")
    for robot in robots.distinct():
        robot.memberships.all().delete()
        User.objects.filter(pk=robot.pk).update(kind="machine", is_superuser=False, is_staff=False)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0003_language_and_time_zone'),
    ]

    operations = [
        migrations.AddField(
            model_name='user',
            name='kind',
            field=models.CharField(choices=[('person', 'Person'), ('machine', 'Machine')], default='person', editable=False, max_length=10),
        ),
        migrations.RunPython(turn_robots_into_machines, migrations.RunPython.noop),
    ]
