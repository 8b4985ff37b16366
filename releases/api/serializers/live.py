"""The versions of a service that were live at a time, over REST."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from releases.api import examples
from releases.api.serializers.releases import ApprovalSerializer


class LiveQuerySerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField(required=False, help_text="Time in the past; default: now.")


class LiveVersionSerializer(serializers.Serializer[Any]):
    version = serializers.CharField(help_text="`model:version`")
    percent = serializers.IntegerField(help_text="Desired share of the requests, 0 to 100.")
    since = serializers.DateTimeField(help_text="Since when it was stable, or had this share.")
    release = serializers.IntegerField(source="release.pk", allow_null=True, default=None)
    requested_by = serializers.CharField(source="release.requester", allow_null=True, default=None)
    approvals = ApprovalSerializer(many=True, help_text="Approvals given by then.")
    audit_entry = serializers.IntegerField(source="entry", help_text="Entry of the audit log that shows it.")


@example(examples.LIVE)
class LiveSerializer(serializers.Serializer[Any]):
    service = serializers.CharField()
    at = serializers.DateTimeField()
    summary = serializers.CharField(help_text="The answer in words.")
    since = serializers.DateTimeField(
        allow_null=True, help_text="Since when the split was this one; null: no version was live."
    )
    versions = LiveVersionSerializer(many=True, help_text="Stable first, then a candidate with requests.")
    cohort = serializers.CharField(
        allow_blank=True, help_text="Requests that went to the candidate whatever its share; empty: none."
    )
    withheld_since = serializers.DateTimeField(
        allow_null=True,
        help_text="Since when stable got all requests, because no worker of the candidate was ready.",
    )
