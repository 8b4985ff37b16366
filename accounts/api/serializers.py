from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.api import examples
from accounts.models import ApiToken, Membership, Team, User, team_name
from accounts.states import Right, Role, TokenState
from accounts.token_presets import PRESETS
from common.api.examples import example
from common.audit import MAX_REASON


class TeamMembershipSerializer(serializers.ModelSerializer[Membership]):
    team = serializers.CharField(source="team.name")

    class Meta:
        model = Membership
        fields = ("team", "role")


@example(examples.PERSON)
class PersonSerializer(serializers.ModelSerializer[User]):
    teams = serializers.SerializerMethodField(help_text="Teams that you share.")

    class Meta:
        model = User
        fields = (
            "username",
            "first_name",
            "last_name",
            "email",
            "kind",
            "is_active",
            "suspended_at",
            "is_superuser",
            "last_login",
            "teams",
        )
        extra_kwargs: ClassVar = {
            "suspended_at": {"help_text": "Since when the identity provider refuses them; null: it does not."}
        }

    @extend_schema_field(TeamMembershipSerializer(many=True))
    def get_teams(self, user: User) -> Any:
        shared = getattr(user, "shared_memberships", None)
        if shared is None:
            shared = self.context["view"].memberships().filter(user=user)
        return TeamMembershipSerializer(shared, many=True).data


@example(examples.NEW_PERSON)
class NewPersonSerializer(serializers.Serializer[Any]):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(
        max_length=1000, write_only=True, trim_whitespace=False, required=False, allow_null=True
    )
    email = serializers.EmailField(required=False, allow_blank=True)
    first_name = serializers.CharField(max_length=150, required=False, allow_blank=True)
    last_name = serializers.CharField(max_length=150, required=False, allow_blank=True)
    is_superuser = serializers.BooleanField(required=False)
    team = serializers.CharField(
        max_length=63, required=False, help_text="Required, except for administrators of the installation."
    )
    role = serializers.ChoiceField(choices=Role.choices, required=False)


@example(examples.PERSON_CHANGE)
class PersonChangeSerializer(serializers.Serializer[Any]):
    email = serializers.EmailField(required=False, allow_blank=True)
    first_name = serializers.CharField(max_length=150, required=False, allow_blank=True)
    last_name = serializers.CharField(max_length=150, required=False, allow_blank=True)
    is_active = serializers.BooleanField(required=False)
    is_superuser = serializers.BooleanField(required=False)


@example(examples.PASSWORD)
class PasswordSerializer(serializers.Serializer[Any]):
    password = serializers.CharField(max_length=1000, write_only=True, trim_whitespace=False)


@example(examples.TEAM)
class TeamSerializer(serializers.ModelSerializer[Team]):
    class Meta:
        model = Team
        fields = ("name", "description", "created_at")


@example(examples.NEW_TEAM)
class NewTeamSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63, validators=[team_name])
    description = serializers.CharField(max_length=2000, required=False, allow_blank=True)


@example(examples.TEAM_CHANGE)
class TeamChangeSerializer(serializers.Serializer[Any]):
    description = serializers.CharField(max_length=2000, allow_blank=True)


@example(examples.MEMBER)
class MemberSerializer(serializers.ModelSerializer[Membership]):
    username = serializers.CharField(source="user.username")

    class Meta:
        model = Membership
        fields = ("username", "role", "created_at")


@example(examples.ROLE_CHANGE)
class RoleChangeSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=Role.choices)
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example(examples.NEW_MEMBER)
class NewMemberSerializer(RoleChangeSerializer):
    username = serializers.CharField(max_length=150)


@example(examples.TOKEN)
class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    owner = serializers.CharField(source="owner.username")
    team = serializers.CharField(source="team.name", default=None, allow_null=True)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Right.choices))
    services = serializers.ListField(
        child=serializers.CharField(), help_text="The only services that it changes; empty: every one."
    )
    state = serializers.ChoiceField(choices=TokenState.choices)

    class Meta:
        model = ApiToken
        fields: tuple[str, ...] = (
            "id",
            "name",
            "prefix",
            "owner",
            "team",
            "scopes",
            "services",
            "state",
            "created_at",
            "expires_at",
            "revoked_at",
            "last_used_at",
        )


@example(examples.NEW_TOKEN)
class NewTokenSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=100)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=Right.choices), allow_empty=False, required=False
    )
    preset = serializers.ChoiceField(
        choices=[(preset.name, preset.label) for preset in PRESETS.values()],
        required=False,
        help_text="Predefined scopes, instead of `scopes` or in addition.",
    )
    expires_at = serializers.DateTimeField(
        required=False, help_text="At most 366 days from now; default 90 days."
    )
    team = serializers.CharField(max_length=63, required=False, help_text="Limit the token to this team.")
    services = serializers.ListField(
        child=serializers.CharField(max_length=63),
        required=False,
        help_text="Limit the token to these services: it may do what its scopes say to them alone.",
    )
    owner = serializers.CharField(
        max_length=150, required=False, help_text="Another user; for administrators of the installation."
    )


@example(examples.ISSUED_TOKEN)
class IssuedTokenSerializer(TokenSerializer):
    token = serializers.CharField(help_text="The token; shown only once.")

    class Meta(TokenSerializer.Meta):
        fields = (*TokenSerializer.Meta.fields, "token")


class RightsSerializer(serializers.Serializer[Any]):
    team = serializers.CharField()
    rights = serializers.ListField(child=serializers.ChoiceField(choices=Right.choices))


@example(examples.ME)
class MeSerializer(serializers.Serializer[Any]):
    """The current user and their permissions; for a token, limited to its scopes."""

    username = serializers.CharField()
    first_name = serializers.CharField()
    last_name = serializers.CharField()
    email = serializers.CharField()
    is_superuser = serializers.BooleanField()
    token = TokenSerializer(allow_null=True, help_text="Token of this request; null for a session.")
    everywhere = serializers.ListField(
        child=serializers.ChoiceField(choices=Right.choices),
        help_text="Permissions in the whole installation.",
    )
    teams = RightsSerializer(many=True, help_text="Your teams.")
