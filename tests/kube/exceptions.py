"""Where the replay does not hold the fake to the recording, each with its reason.

Whatever is here and needs not be is a failure of the test, too.
"""

NOT_SENT: dict[str, str] = {
    "01/167": "the 32 requests that raced are not in the recording",
    "02/24": "the recording holds the parsed body, in which no key is twice",
}
STATUS_ONLY: dict[str, str] = {
    # Status, reason and the causes' fields are compared, but not the text.
    "01/22": "the words of Go's YAML parser",
    "01/95": "the message has a diff of Go structs",
    "02/20": "the words of Go's JSON parser",
}
CONTROLLERS = "waits for controllers, which the fake does not have yet"
NOT_YET: dict[str, str] = {
    "02/68": CONTROLLERS,
    "02/69": CONTROLLERS,
    "02/70": "the fake has no Gateway API yet",
    "02/101": CONTROLLERS,
    "02/114": CONTROLLERS,
    "02/115": CONTROLLERS,
    "02/116": CONTROLLERS,
    "02/124": CONTROLLERS,
    "02/125": CONTROLLERS,
    "02/131": CONTROLLERS,
    "02/139": CONTROLLERS,
    "02/140": CONTROLLERS,
    "02/142": CONTROLLERS,
}
