from django.db import models

from releases.models import Release

Release.add_to_class("urgency", models.IntegerField(db_default=0))
