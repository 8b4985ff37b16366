"""Who the identity provider says somebody is: sign-on, groups that give roles, sign-out, SCIM, CI systems."""
