"""Ports of the cluster that `bin/up --sample --kubernetes` runs on this machine."""

from pydantic import Field
from pydantic_settings import BaseSettings


class SampleClusterSettings(BaseSettings):
    """The sample's Kubernetes cluster"""

    sample_cluster_port: int = Field(
        8082,
        ge=1,
        le=65535,
        description="Port of the API of the sample's Kubernetes cluster, on the loopback address only.",
    )
    sample_gateway_port: int = Field(
        8083, ge=1, le=65535, description="Port of that cluster's gateway: model traffic."
    )
    sample_gateway_admin_port: int = Field(
        8084,
        ge=1,
        le=65535,
        description="Port of that gateway's admin endpoint, on the loopback address only.",
    )
