"""Django's PostgreSQL with a bound on connections, and what happens while the server does not answer.

`ENGINE = "common.database"`. Without the option `pool` it is Django's own.
"""
