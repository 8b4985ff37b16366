"""Model files for the machines of a cluster, by the cluster's own token (see `serving.fetch`)."""

from typing import Any

from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api import examples
from clusters.model_files import cluster_of, content_of, version_on
from common.api.etags import unchanged
from common.api.examples import example
from common.api.ranges import MEDIA_TYPE, ranged
from common.api.views import Endpoint
from model_store.errors import BlobMissing, StoreUnavailable
from models_registry.files import laid_out
from models_registry.models import Version

VERSION = OpenApiParameter("version", OpenApiTypes.INT, OpenApiParameter.PATH, description="Id of a version.")
RANGE = OpenApiParameter(
    "Range", OpenApiTypes.STR, OpenApiParameter.HEADER, description="One range of bytes, `bytes=0-8388607`."
)


class _FileSerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField()


@example(examples.MODEL_FILES)
class ModelFilesSerializer(serializers.Serializer[Any]):
    version = serializers.CharField(help_text="`model:version`.")
    digest = serializers.CharField(help_text="sha256 over what sha256sum prints for the files, by path.")
    size_bytes = serializers.IntegerField()
    files = _FileSerializer(many=True)


class _ClusterFilesEndpoint(Endpoint):
    serves_reporters = True
    queryset = Version.objects.all()
    serializer_class = ModelFilesSerializer
    pagination_class = None

    def visible(self, rows: QuerySet[Version]) -> QuerySet[Version]:
        return rows.none()

    def get_object(self) -> Version:
        return version_on(cluster_of(self.actor), self.kwargs["version"])


@extend_schema(parameters=[VERSION])
class DeployedVersionFiles(_ClusterFilesEndpoint):
    """The files of a version that runs on the cluster of the token."""

    @extend_schema(operation_id="list_model_files")
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the files of a version. Requires the right `fleet.fetch`, by the token of a cluster on which
        a deployment needs the version.
        """
        version = self.get_object()
        digest, manifest = laid_out(version)
        etag = f'"{digest}"'
        if unchanged(request._request, etag):
            return Response(status=304, headers={"ETag": etag})
        files = [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in manifest.files]
        shown = {
            "version": str(version),
            "digest": digest,
            "size_bytes": manifest.size_bytes,
            "files": files,
        }
        return Response(shown, headers={"ETag": etag})


@extend_schema(parameters=[VERSION])
class DeployedVersionFile(_ClusterFilesEndpoint):
    """The bytes of one file of such a version."""

    @extend_schema(
        operation_id="download_model_file",
        parameters=[
            OpenApiParameter(
                "sha256", OpenApiTypes.STR, OpenApiParameter.PATH, description="sha256 of the file, in hex."
            ),
            RANGE,
        ],
        responses={
            (200, MEDIA_TYPE): OpenApiResponse(OpenApiTypes.BINARY, description="All of it."),
            (206, MEDIA_TYPE): OpenApiResponse(OpenApiTypes.BINARY, description="The range."),
            416: OpenApiResponse(description="It has no such bytes; `Content-Range` tells its size."),
        },
    )
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Download a file of a version, or a range of it. Rights as for the list."""
        sha256 = self.kwargs["sha256"]
        try:
            return ranged(
                request._request,
                content_of(self.get_object(), sha256),
                etag=f'"{sha256}"',
                size_of=lambda content: content.size,
                read_at=lambda content: content.read_at,
            )
        except BlobMissing as error:
            raise StoreUnavailable(str(error), retry_after_s=30) from None
