"""What a SCIM client may ask about this server (RFC 7643, 5 to 7): constant documents."""

from typing import Any

from identity.scim.documents import GROUP, USER

MAX_RESULTS = 200


def provider_config(base: str) -> dict[str, Any]:
    return {
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
        "patch": {"supported": True},
        "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": True, "maxResults": MAX_RESULTS},
        "changePassword": {"supported": False},
        "sort": {"supported": False},
        "etag": {"supported": False},
        "authenticationSchemes": [
            {
                "type": "oauthbearertoken",
                "name": "Slipway API token",
                "description": "A token with the scope people.provision.",
                "primary": True,
            }
        ],
        "meta": {"resourceType": "ServiceProviderConfig", "location": f"{base}/ServiceProviderConfig"},
    }


def resource_types(base: str) -> list[dict[str, Any]]:
    return [
        {
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
            "id": name,
            "name": name,
            "endpoint": f"/{name}s",
            "schema": schema,
            "meta": {"resourceType": "ResourceType", "location": f"{base}/ResourceTypes/{name}"},
        }
        for name, schema in (("User", USER), ("Group", GROUP))
    ]


def _attribute(name: str, kind: str = "string", **more: Any) -> dict[str, Any]:
    usual = {
        "multiValued": False,
        "required": False,
        "caseExact": False,
        "mutability": "readWrite",
        "returned": "default",
        "uniqueness": "none",
    }
    return {"name": name, "type": kind, **usual, **more}


def schemas(base: str) -> list[dict[str, Any]]:
    user = [
        _attribute("userName", required=True, uniqueness="server"),
        _attribute("name", "complex", subAttributes=[_attribute("givenName"), _attribute("familyName")]),
        _attribute("emails", "complex", multiValued=True, subAttributes=[_attribute("value")]),
        _attribute("active", "boolean"),
    ]
    group = [
        _attribute("displayName", required=True, uniqueness="server"),
        _attribute("members", "complex", multiValued=True, subAttributes=[_attribute("value")]),
    ]
    return [
        {
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Schema"],
            "id": schema,
            "name": name,
            "attributes": attributes,
            "meta": {"resourceType": "Schema", "location": f"{base}/Schemas/{schema}"},
        }
        for name, schema, attributes in (("User", USER, user), ("Group", GROUP, group))
    ]
