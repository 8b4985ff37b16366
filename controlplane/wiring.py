"""Every asynchronous edge of the system: which event is handed to whom, after the commit."""


def connect() -> None:
    """Subscribe everything; called once, when Django has loaded the apps."""
