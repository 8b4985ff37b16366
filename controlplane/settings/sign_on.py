"""Who signs in and how: passwords with their lockouts, OpenID Connect, SAML."""

from controlplane.env import env, require

SLIPWAY_LOOPBACK_PROVIDERS = env.loopback_providers
SLIPWAY_OIDC_SERVER_URL = env.oidc_server_url
SLIPWAY_SAML_METADATA = env.saml_metadata
SLIPWAY_SAML_ENTITY_ID = env.saml_entity_id
SLIPWAY_SAML_KEY = env.saml_key
SLIPWAY_SAML_CERTIFICATE = env.saml_certificate
SLIPWAY_SAML_SECOND_KEY = env.saml_second_key
SLIPWAY_SAML_SECOND_CERTIFICATE = env.saml_second_certificate
SLIPWAY_SAML_REQUIRE_ENCRYPTION = env.saml_require_encryption
SLIPWAY_GROUPS_CLAIM = env.saml_groups_attribute if env.saml_metadata else env.oidc_groups_claim
SLIPWAY_OIDC_CHECK_MINUTES = env.oidc_check_minutes
SLIPWAY_SCIM_LINK = env.scim_link
SLIPWAY_CI_ISSUERS = env.ci_issuers
SLIPWAY_PASSWORD_LOGIN = env.password_login
SLIPWAY_BREAK_GLASS_ACCOUNT = env.break_glass_account

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "accounts.login.PasswordBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"
AXES_FAILURE_LIMIT = env.lockout_after
AXES_COOLOFF_TIME = env.lockout_minutes / 60
AXES_HANDLER = "accounts.lockouts.LockoutHandler"
SLIPWAY_LOCKOUT_AFTER_ADDRESS = env.lockout_after_address
SLIPWAY_LOCKOUT_AFTER_ALL = env.lockout_after_all
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_USERNAME_CALLABLE = "accounts.login.lockout_name"
AXES_LOCKOUT_CALLABLE = "accounts.login.locked_out"
AXES_VERBOSE = False
ACCOUNT_ADAPTER = "identity.login.SingleSignOnAccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_UNIQUE_EMAIL = False
ACCOUNT_SESSION_REMEMBER = True
# Failures are counted by axes, in the database: allauth's counter is per process.
ACCOUNT_RATE_LIMITS = {"login_failed": None, "login": "120/m/ip"}
SOCIALACCOUNT_ADAPTER = "identity.login.SingleSignOnAdapter"
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False
SOCIALACCOUNT_PROVIDERS: dict[str, dict[str, object]] = {}
if env.oidc_server_url:
    require("oidc_client_id", "oidc_client_secret")
    SOCIALACCOUNT_PROVIDERS["openid_connect"] = {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "sso",
                "name": env.oidc_name or "single sign-on",
                "client_id": env.oidc_client_id,
                "secret": env.oidc_client_secret,
                "settings": {"server_url": env.oidc_server_url, "scope": list(env.oidc_scopes)},
            }
        ],
    }

if env.saml_metadata:
    SOCIALACCOUNT_PROVIDERS["saml"] = {
        "APPS": [{"provider_id": "saml", "name": env.saml_name or "single sign-on", "client_id": "saml"}]
    }

_provider = env.oidc_server_url or env.saml_metadata
SLIPWAY_SIGN_ON_TARGETS = ["https:"] if _provider else []
"""Where a posted form may lead: the provider."""
if _provider.startswith("http:"):
    SLIPWAY_SIGN_ON_TARGETS.append(_provider)
