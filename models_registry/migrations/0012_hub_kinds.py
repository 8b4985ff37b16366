from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0011_uploads")]

    operations = [
        migrations.AddField(
            model_name="hubsource",
            name="kind",
            field=models.CharField(choices=[("huggingface", "Hugging Face"), ("modelscope", "ModelScope")], default="huggingface", max_length=12),
        ),
    ]
