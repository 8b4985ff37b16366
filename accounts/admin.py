"""Raw rows, for administrators of the installation to read. Services write them, with rules and audit."""

from django.contrib import admin
from django.contrib.auth.models import Group

from accounts.models import ApiToken, Membership, Team, User
from common.admin import ReadOnly

admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(ReadOnly):
    list_display = ("username", "kind", "email", "is_active", "is_superuser", "last_login")
    list_filter = ("kind", "is_active", "is_superuser")
    search_fields = ("username", "email", "first_name", "last_name")
    exclude = ("password", "groups", "user_permissions")


@admin.register(Team)
class TeamAdmin(ReadOnly):
    list_display = ("name", "description", "created_at")
    search_fields = ("name",)


@admin.register(Membership)
class MembershipAdmin(ReadOnly):
    list_display = ("user", "team", "role", "created_at")
    list_filter = ("role",)
    list_select_related = ("user", "team")
    search_fields = ("user__username", "team__name")


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnly):
    list_display = ("name", "prefix", "owner", "team", "expires_at", "revoked_at", "last_used_at")
    list_select_related = ("owner", "team")
    search_fields = ("name", "prefix", "owner__username")
    exclude = ("secret_hash",)
