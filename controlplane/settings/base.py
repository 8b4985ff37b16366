"""Settings that every installation shares. No logic: what varies comes from `controlplane.env`."""

from csp.constants import NONCE, NONE, SELF

from common.database.outage import OutageAwareConnection
from common.database.url import settings_of
from common.live.sentinel import broker_options, broker_url
from controlplane.env import env, otlp_traces
from controlplane.environment import PROJECT, VERSION
from controlplane.installed import APPS
from controlplane.settings.rest import *  # noqa: F403
from controlplane.settings.sign_on import *  # noqa: F403
from controlplane.settings.sign_on import SLIPWAY_SIGN_ON_TARGETS

vars().update(env.of_apps())
BASE_DIR = PROJECT
SLIPWAY_HOME = env.home
SLIPWAY_HOST = env.host
SLIPWAY_RUN_DIR = env.home / "run"
SLIPWAY_LOG_DIR = env.home / "logs"
SLIPWAY_JOBS_DIR = env.home / "jobs"
SLIPWAY_STORE_DIR = env.store_directory
SLIPWAY_STORE = env.store_bucket
SLIPWAY_STORE_IS_SHARED_DIRECTORY = env.store_is_shared_directory
SLIPWAY_STORE_ENDPOINT = env.store_endpoint
SLIPWAY_STORE_REGION = env.store_region
SLIPWAY_STORE_PATH_STYLE = env.store_path_style
SLIPWAY_STORE_CACHE_BYTES = env.store_cache_gib * 1024**3
SLIPWAY_STORE_GRACE_SECONDS = env.store_grace_hours * 3600
SLIPWAY_STORE_CHECK_DAYS = env.store_check_days
SLIPWAY_STORE_QUARANTINE_DAYS = env.store_quarantine_days
SLIPWAY_STORE_CHECK_BYTES_PER_SECOND = env.store_check_mib_per_second * 1024 * 1024
SLIPWAY_KEEP_INTENTS_DAYS = env.keep_intents_days
SLIPWAY_KEEP_ANSWERS_DAYS = env.keep_answers_days
SLIPWAY_KEEP_WEBHOOKS_DAYS = env.keep_webhooks_days
SLIPWAY_KEEP_SESSIONS_DAYS = env.keep_sessions_days
SLIPWAY_KEEP_SIGN_INS_DAYS = env.keep_sign_ins_days
SLIPWAY_DISK_RESERVE_MIB = env.disk_reserve_mib
SLIPWAY_BACKUP_MAX_AGE_HOURS = env.backup_max_age_hours
SLIPWAY_DISK_WARN_PERCENT = env.disk_warn_percent
SLIPWAY_IMPORT_ROOTS = (*env.import_roots, env.home / "imports")
SLIPWAY_BIND = env.bind
SLIPWAY_PORT = env.port
SLIPWAY_GATEWAY_PORT = env.gateway_port
SLIPWAY_GATEWAY_ADMIN_PORT = env.gateway_admin_port
SLIPWAY_CLIENT_HEADER_SECONDS = env.client_header_seconds
SLIPWAY_CLIENT_IDLE_SECONDS = env.client_idle_seconds
SLIPWAY_RELEASE_HEADER = env.release_header or "off"
SLIPWAY_ACCESS_LOG = env.access_log != "off"
SLIPWAY_OTLP_TRACES = otlp_traces()
SLIPWAY_METRICS = env.metrics or "token"
SLIPWAY_API_SCHEMA = env.api_schema or "token"
SLIPWAY_GATEWAY_BACKENDS = {
    "envoy": "gateway.backends.envoy.configured",
    "gateway_api": "gateway.backends.gateway_api.configured",
}
SLIPWAY_GATEWAY_URL = env.gateway_url or env.local_url(env.gateway_port)
SLIPWAY_LOCAL_URL = env.local_url(env.port)
SLIPWAY_PUBLIC_URL = env.public_url or SLIPWAY_LOCAL_URL
SLIPWAY_WORKER_PORTS = env.worker_port_range
SLIPWAY_CLUSTER_BACKENDS = {
    "embedded": "clusters.backends.embedded.configured",
    "kubernetes": "clusters.backends.kubernetes.configured",
}
SLIPWAY_NODE_TOKEN_FILE = SLIPWAY_RUN_DIR / "node-token"
SLIPWAY_CLUSTER_ALLOWED_NETWORKS = env.cluster_allowed_networks
SLIPWAY_WEBHOOK_ALLOWED_HOSTS = env.webhook_allowed_hosts
SLIPWAY_VERSION = VERSION

SECRET_KEY = env.secret_key
SECRET_KEY_FALLBACKS = list(env.secret_key_fallbacks)
SLIPWAY_AUDIT_KEY = env.audit_key
SLIPWAY_AUDIT_KEY_FALLBACKS = env.audit_key_fallbacks
SLIPWAY_AUDIT_OUTPUTS = env.audit_outputs
SLIPWAY_AUDIT_EXPORT_SECONDS = env.audit_export_seconds
DEBUG = False
ALLOWED_HOSTS = list(env.allowed_hosts)
ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
# Each language by its own name, so that whoever reads nothing else finds it.
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
SLIPWAY_CATALOGUES = PROJECT / "locale"
LOCALE_PATHS = [env.home / "locale"]
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
APPEND_SLASH = True

SLIPWAY_APPS = APPS

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "controlplane.static_files.StaticFiles",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "axes",
    "channels",
    "csp",
    "django_filters",
    "django_htmx",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "rest_framework",
    "template_partials",
    "controlplane",
    "common",
    *APPS,
]

MIDDLEWARE = [
    "controlplane.readiness.readiness_middleware",
    "common.request_id.request_id_middleware",
    "common.request_spans.request_span_middleware",
    "common.logs.access.access_log_middleware",
    "controlplane.metrics.request_metrics_middleware",
    "django.middleware.security.SecurityMiddleware",
    "common.pages.compression.PageCompressionMiddleware",
    "controlplane.static_files.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "common.nul.nul_middleware",
    "common.slashes.SlashMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "accounts.middleware.actor_middleware",
    "accounts.middleware.language_middleware",
    "controlplane.full_disk.full_disk_middleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "common.pages.hidden_text.hidden_text_middleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PROJECT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "common.pages.shell.shell",
            ],
        },
    }
]

STATIC_URL = "static/"
STATICFILES_DIRS = [
    PROJECT / "static",
    ("vendor/tabler", PROJECT / "node_modules/@tabler/core/dist/css"),
    ("vendor/uplot", PROJECT / "node_modules/uplot/dist"),
    ("vendor/inter", PROJECT / "node_modules/@fontsource-variable/inter/files"),
    ("vendor/mono", PROJECT / "node_modules/@fontsource-variable/jetbrains-mono/files"),
]
STATIC_ROOT = env.home / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "common.static_storage.CollectedFiles"},
}
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
# Nobody but a debugger asks for source maps, which are half of all that would be compressed.
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = (
    "map",
    "png",
    "jpg",
    "jpeg",
    "gif",
    "webp",
    "woff",
    "woff2",
    "gz",
    "br",
    "zip",
)

SQLITE = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}
DATABASES = {"default": settings_of(env.database_url or f"sqlite:///{env.home / 'db.sqlite3'}")}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"] |= {"OPTIONS": SQLITE, "CONN_MAX_AGE": 60}
else:
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    DATABASES["default"]["OPTIONS"] |= {
        "pool": {
            "min_size": 0,
            "max_size": env.database_connections,
            "max_idle": 60.0,
            # As long as a caller waits for a connection that another returns, and the pool for a server.
            "timeout": 5.0,
            "reconnect_timeout": 2.0,
            "connection_class": OutageAwareConnection,
        },
    }

REDIS_URL = env.redis_url or f"unix://{SLIPWAY_RUN_DIR / 'valkey.sock'}"
SLIPWAY_JOBS_URL = env.jobs_url or REDIS_URL

# docs/ARCHITECTURE.md, "The kernel": time limit 20 s < lease 30 s < visibility timeout 120 s.
# A ring at a dead broker fails at once: whoever rings is a request, and the sweeper finds the row.
REDIS_BROKER_OPTIONS = {
    **broker_options(REDIS_URL),
    "visibility_timeout": 120,
    "max_retries": 0,
    "socket_connect_timeout": 1,
    "socket_timeout": 5,
}
CELERY_BROKER_URL = broker_url(REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = REDIS_BROKER_OPTIONS
CELERY_VISIBILITY_TIMEOUT = 120
CELERY_RESULT_BACKEND_TRANSPORT_OPTIONS = REDIS_BROKER_OPTIONS
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_TIME_LIMIT = 20
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 10.0
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_PUBLISH_RETRY = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

SESSION_ENGINE = "common.sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = SECURE_SSL_REDIRECT = env.https
SECURE_HSTS_SECONDS = 31_536_000 if env.https else 0
CSRF_TRUSTED_ORIGINS = [SLIPWAY_PUBLIC_URL]
CSRF_FAILURE_VIEW = "common.pages.views.forged"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "manifest-src": [SELF],
        "connect-src": [SELF, SLIPWAY_PUBLIC_URL.replace("http", "ws", 1)],
        # Browsers hold the redirect after a posted form to this too, so single sign-on needs its host here.
        "form-action": [SELF, *SLIPWAY_SIGN_ON_TARGETS],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {
            "()": "common.logs.formatters.TextFormatter",
            "fmt": "{asctime} {levelname} {name} [{request_id}] {message}",
            "style": "{",
        },
        "json": {"()": "common.logs.formatters.JsonFormatter"},
    },
    "filters": {
        "outage": {"()": "common.database.outage.LeftOutDuringOutage"},
        "clients": {"()": "common.logs.clients.OneLineForClients"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": env.log_format,
            "filters": ["outage", "clients"],
        }
    },
    # One line per request sent is too much where the gateway is asked every second, and where a bucket's
    # credentials were found is no news at the terminal of `bin/up`.
    "loggers": {"httpx2": {"level": "WARNING"}, "botocore": {"level": "WARNING"}},
    "root": {"handlers": ["stderr"], "level": env.log_level},
}
