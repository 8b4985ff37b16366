from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0004_account_kind'),
    ]

    operations = [
        migrations.AddConstraint(
            model_name='user',
            constraint=models.CheckConstraint(condition=models.Q(('kind', 'person'), models.Q(('is_staff', False), ('is_superuser', False), ('kind', 'machine')), _connector='OR'), name='machine_administers_nothing'),
        ),
    ]
