"""Where the replay does not hold the fake to the recording, each with its reason.

Whatever is here and needs not be is a failure of the test, too.
"""

OTHER_FORMS = "our client asks for JSON of whole objects alone: no tables, no partial objects, no YAML"
MOMENT = "whether it changes anything hangs on the moment at which a controller has seen the change before"
OTHER_TOPICS = "reads what scripts of other topics had left in the cluster"
NAMES = "names are made by chance, and they are in a text, or order a list"
LIMITS = "LimitRanges are stored and limit nothing"
SCALED = "that scaling to zero takes the field from whoever scaled"
EVENTS_GROUP = "events are served in the core group alone"
FAILURE_POLICY = "a Job's policy for the failures of its pods"
FORK = "what the recorded API server says of itself, or has in every namespace"
AGGREGATED = "our client asks for the kinds of one group at a time"
WARNED = "what it warns of, our client writes none of"
SECURITY = "PodSecurity is not imitated"
CLAIMS = "claims are stored, and nobody provides or protects them"
SLICES = "the fake has no EndpointSlices"
DEFINITIONS = "the fake has kinds, and nobody can define another one through it"
HOOKS = "webhooks, policies and aggregated servers are not imitated"
TIME_LIMITS = "requests take no time in the fake: faults are ordered by whoever tests"
PROXIES = "our client asks for no proxies, bindings or resizes"
OTHER_REVIEWS = "our client asks for no reviews but of its own rights"
DISCOVERY = "which version of a group came first, and the list of all kinds of the recorded cluster"
RULES = "a rule in CEL that the fake does not have: it takes what the real one refuses"
FLUID = "the fake has no Datasets of Fluid, of which Slipway makes none"
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
    "08/49": OTHER_REVIEWS,
    "08/52": OTHER_REVIEWS,
    **{f"08/{step}": OTHER_REVIEWS for step in (67, 68, 108)},
    **{f"08/{step}": "our client acts as nobody else" for step in (53, 54, 55, 56, 97, 98)},
    **{f"08/{step}": "our client asks for no tokens" for step in (59, 60, 61, 62, 63, 64)},
    "08/7": "the numbers of another build",
    "08/102": "our client makes no roles; that they cannot exceed their maker's is not imitated",
    "03/60": OTHER_TOPICS,
    "03/61": OTHER_TOPICS,
    "09/1": DISCOVERY,
    "09/2": DISCOVERY,
    "09/3": "the fake has kinds, and no definitions of them that could be read",
    "09/80": OTHER_FORMS,
    "03/134": "asks for a revision of the recorded cluster",
    "09/8": "what was stored is looked at once more, in Go's own words",
    "09/93": "the fault of a definition's scale path, and a warning beside a refusal",
    **{f"09/{step}": RULES for step in (11, 13, 32, 34, 35, 37, 45, 48, 49, 50, 108)},
    **{f"09/{step}": DISCOVERY for step in (87, 95)},
    **dict.fromkeys(("08/94", *(f"09/{step}" for step in (*range(96, 103), 144, 145, 146))), FLUID),
    **{f"03/{step}": OTHER_FORMS for step in (66, 67, 68, 69, 70, 71, 72, 73, 75, 88, 89, 135)},
}
NOT_SENT |= {
    **{f"04/{step}": SCALED for step in (36, 110)},
    **{f"04/{step}": NAMES for step in (58, 124)},
    **{f"04/{step}": LIMITS for step in (64, 66)},
    **{f"04/{step}": "a machine of another topic was still there" for step in (72, 74, 76, 80, 151)},
    **{f"04/{step}": EVENTS_GROUP for step in (98, 102, 156)},
    "04/100": "the empty fields that Go writes of an event",
    "04/127": MOMENT,
    **{f"04/{step}": PROXIES for step in (162, 163, 166)},
    "05/19": "of which labels it is said",
    **{f"05/{step}": FAILURE_POLICY for step in (70, 93, 94)},
    **{f"07/{step}": "what a machine has that has told nothing of itself" for step in (38, 39, 40)},
    **{f"07/{step}": MOMENT for step in (52, 56, 65, 74, 89, 90, 92)},
    **{f"10/{step}": FORK for step in (1, 3, 5, 14, 15, 29, 35, 84, 86, 104)},
    **{f"10/{step}": AGGREGATED for step in (6, 7, 8, 9, 10, 11, 13, 94)},
    "10/28": "our client asks for no heads",
    **{f"10/{step}": WARNED for step in (38, 39, 41, 42, 43, 44)},
    **{f"10/{step}": SECURITY for step in (45, 46, 47, 48, 49)},
    "10/50": "which fields an autoscaler's maker owns",
    **{f"10/{step}": CLAIMS for step in (52, 53, 54, 55)},
    **{f"10/{step}": SLICES for step in (58, 60)},
    **{f"10/{step}": DEFINITIONS for step in range(61, 74)},
    **{f"10/{step}": TIME_LIMITS for step in (74, 75, 77)},
    **{f"10/{step}": OTHER_FORMS for step in (80, 85)},
    **{f"10/{step}": PROXIES for step in (87, 88)},
    **{f"10/{step}": HOOKS for step in (*range(90, 94), *range(95, 104), *range(106, 113))},
}
SENT_ONLY = {"04/35": MOMENT}
"""Sent, as what follows rests on it, and not compared."""
REVISION = "the message names a revision of the recorded cluster"
GO = "the message shows Go structs"
STATUS_ONLY: dict[str, str] = {
    # Status, reason and the causes' fields are compared, but not the text.
    "01/22": "the words of Go's YAML parser",
    "01/95": GO,
    **{f"04/{step}": GO for step in (165, 167)},
    "05/18": NAMES,
    "05/21": GO,
    **{f"10/{step}": "the words of Go's JSON parser" for step in (78, 79, 81)},
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
