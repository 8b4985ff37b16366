"""One machine, everything bundled: what `bin/up` runs."""

import os

from controlplane.embedded.home import Home, audit_key_of, secret_of
from controlplane.env import env
from controlplane.settings.base import *  # noqa: F403

# Whatever is written is its owner's: database, logs, models, what commands of manage.py leave behind.
os.umask(0o077)

# What lies in the home, the database too, is one host's whatever the machine is called.
SLIPWAY_HOST = env.host or ("" if env.database_url else "local")
# Clusters of kind and minikube listen there; whoever signs in here has this machine anyway.
SLIPWAY_CLUSTER_ALLOWED_NETWORKS = (*env.cluster_allowed_networks, "127.0.0.0/8", "::1/128")
SLIPWAY_RELEASE_HEADER = env.release_header or "open"
SLIPWAY_ACCESS_LOG = env.access_log == "on"
SLIPWAY_METRICS = env.metrics or "open"
SLIPWAY_API_SCHEMA = env.api_schema or "open"
SECRET_KEY = env.secret_key or secret_of(Home(env.home))
SLIPWAY_AUDIT_KEY = env.audit_key or audit_key_of(Home(env.home))
