"""REST and the schema that describes it."""

REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "common.api.schema.Schema",
    "DEFAULT_RENDERER_CLASSES": ["common.api.json.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["common.api.json.JSONParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "accounts.api.authentication.TokenAuthentication",
        "accounts.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["accounts.api.permissions.HasRight"],
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "common.api.problems.exception_handler",
    "NON_FIELD_ERRORS_KEY": "body",
    "SEARCH_PARAM": "q",
    "URL_FORMAT_OVERRIDE": None,
    "TEST_REQUEST_RENDERER_CLASSES": ["common.api.json.JSONRenderer"],
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Slipway",
    "VERSION": "1",
    "DESCRIPTION": "Model registry, releases behind a gateway, and the fleet that serves them.",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["common.api.schema.MayReadSchema"],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "common.api.schema.with_exact_alternatives",
    ],
    "SCHEMA_PATH_PREFIX": r"/api/v[0-9]+",
    "SWAGGER_UI_SETTINGS": {"persistAuthorization": False, "deepLinking": True, "validatorUrl": None},
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}
