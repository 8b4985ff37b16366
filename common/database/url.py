"""A database by its URL. PostgreSQL's are read by libpq, so that all that it knows may stand there.

`postgresql://user:password@one,two/name?target_session_attrs=read-write`: whichever of both is the primary.
"""

from typing import Any
from urllib.parse import unquote, urlsplit

SCHEMES = ("postgresql", "postgres", "sqlite")


def settings_of(url: str) -> dict[str, Any]:
    """Return the entry of Django's `DATABASES`. Raises ValueError, without what may be secret in the URL."""
    if url.startswith("sqlite:"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": unquote(urlsplit(url).path[1:])}
    # Not installed where only SQLite is used.
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        options: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise ValueError(
            "is no URL of PostgreSQL: postgresql://user:password@host:port/name?option=value, with "
            "special characters of a password percent-encoded (%40) and the options of libpq"
        ) from None
    named = {"HOST": "host", "PORT": "port", "USER": "user", "PASSWORD": "password", "NAME": "dbname"}
    found = {name: str(options.pop(option, "")) for name, option in named.items()}
    if any(port and not port.isdecimal() for port in found["PORT"].split(",")):
        raise ValueError("has a port that is no number")
    return {"ENGINE": "common.database", **found, "OPTIONS": options}
