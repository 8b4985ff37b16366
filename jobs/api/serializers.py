from typing import Any

from rest_framework import serializers

from common.api.examples import example
from jobs.models import ServiceJob

NEW = {"service": "shapes", "path": "/render", "body": {"steps": 20}}


@example(
    {
        "id": "4f1c8a5e0b1d4e0f9a7b3c2d1e0f9a8b",
        "number": 12,
        "service": "shapes",
        "path": "/render",
        "team": "speech",
        "version": "shapes:v2",
        "state": "running",
        "progress": 0.4,
        "message": "step 8",
        "attempts": 1,
        "worker": "shapes-2-0",
        "on_release": "next",
        "status": None,
        "error": "",
        "created_at": "2026-11-20T08:00:00Z",
        "deadline": "2026-11-21T08:00:00Z",
        "ended_at": None,
    }
)
class ServiceJobSerializer(serializers.ModelSerializer[ServiceJob]):
    id = serializers.CharField(source="name", help_text="Id, as in the `Location` of the 202 response.")
    number = serializers.IntegerField(source="pk", help_text="Number in the address of its page.")
    service = serializers.CharField(source="service.name")
    path = serializers.CharField(source="description", help_text="Route that the job was submitted to.")
    team = serializers.CharField(source="team.name")

    class Meta:
        model = ServiceJob
        fields: tuple[str, ...] = (
            *("id", "number", "service", "path", "team", "version", "state", "progress", "message"),
            *("attempts", "worker", "on_release", "status", "error", "created_at", "deadline", "ended_at"),
        )


@example(NEW)
class NewServiceJobSerializer(serializers.Serializer[Any]):
    service = serializers.CharField(max_length=50)
    path = serializers.CharField(max_length=300, help_text="Route of a job, for example `/render`.")
    body = serializers.JSONField(required=False, help_text="JSON body of the request to the route.")
