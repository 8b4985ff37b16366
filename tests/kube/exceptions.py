"""Where the replay does not hold the fake to the recording, each with its reason.

Whatever is here and needs not be is a failure of the test, too.
"""

OTHER_FORMS = "our client asks for JSON of whole objects alone: no tables, no partial objects, no YAML"
MOMENT = "whether it changes anything hangs on the moment at which a controller has seen the change before"
OTHER_TOPICS = "reads what scripts of other topics had left in the cluster"
EVENTS = "the fake's controllers, scheduler and kubelets write no events"
OTHER_REVIEWS = "our client asks for no reviews but of its own rights"
DISCOVERY = "which version of a group came first, and the list of all kinds of the recorded cluster"
RULES = "a rule in CEL that the fake does not have: it takes what the real one refuses"
NOT_SENT: dict[str, str] = {
    "01/167": "the 32 requests that raced are not in the recording",
    "02/24": "the recording holds the parsed body, in which no key is twice",
    **{f"02/{step}": MOMENT for step in (68, 69)},
    "03/57": OTHER_TOPICS,
    "06/45": MOMENT,
    "06/67": "one of the seven machines was away then, by a script of another topic",
    "06/70": MOMENT,
    "06/90": OTHER_TOPICS,
    "06/91": OTHER_TOPICS,
    "06/71": EVENTS,
    "08/49": OTHER_REVIEWS,
    "08/52": OTHER_REVIEWS,
    **{f"08/{step}": OTHER_REVIEWS for step in (67, 68, 108)},
    **{f"08/{step}": "our client acts as nobody else" for step in (53, 54, 55, 56, 97, 98)},
    **{f"08/{step}": "our client asks for no tokens" for step in (59, 60, 61, 62, 63, 64)},
    "08/7": "the numbers of another build",
    "08/102": "our client makes no roles; that they cannot exceed their maker's is not imitated",
    "03/60": EVENTS,
    "03/61": EVENTS,
    "09/1": DISCOVERY,
    "09/2": DISCOVERY,
    "09/3": "the fake has kinds, and no definitions of them that could be read",
    "09/80": OTHER_FORMS,
    "03/134": "asks for a revision of the recorded cluster",
    "09/8": "what was stored is looked at once more, in Go's own words",
    "09/93": "the fault of a definition's scale path, and a warning beside a refusal",
    **{f"09/{step}": RULES for step in (11, 13, 32, 34, 35, 37, 45, 48, 49, 50, 108)},
    **{f"09/{step}": DISCOVERY for step in (87, 95)},
    **{f"03/{step}": OTHER_FORMS for step in (66, 67, 68, 69, 70, 71, 72, 73, 75, 88, 89, 135)},
}
REVISION = "the message names a revision of the recorded cluster"
GO = "the message shows Go structs"
STATUS_ONLY: dict[str, str] = {
    # Status, reason and the causes' fields are compared, but not the text.
    "01/22": "the words of Go's YAML parser",
    "01/95": GO,
    "02/20": "the words of Go's JSON parser",
    "06/13": GO,
    "06/44": MOMENT,
    "06/65": MOMENT,
    "08/42": GO,
    "09/72": "the path in the message begins below the status",
    "09/5": "the message repeats the value",
    "09/55": "the order of three faults",
    "03/16": "the words of Go's JSON parser",
    **{f"03/{step}": REVISION for step in (30, 31, 99, 129, 130, 131)},
}
RESTARTS = {"03/124"}
"""Before these the recorded API server was started anew, and had forgotten."""
HALTS = {"06/74": False, "06/87": True}
"""Whether controllers run from here on."""
