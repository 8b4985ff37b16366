from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings

from common.setting_types import SecretPart, url


class Settings(BaseSettings):
    """Notifications"""

    smtp_url: Annotated[str, AfterValidator(lambda text: url(text, "smtp", "smtps")), SecretPart.PASSWORD] = (
        Field(
            "",
            description="Mail server that notifications by e-mail go to: `smtp://user:password@host:587` "
            "(STARTTLS where the server offers it) or `smtps://host:465`. Empty: no e-mail.",
        )
    )
    mail_from: str = Field("slipway@localhost", description="Sender of notifications by e-mail.")
