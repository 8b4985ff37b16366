"""What providers of machines announce, in the shapes that they document."""

import base64
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_health.signals.envelopes import unwrapped
from gpu_health.signals.provider_events import NotAnEvent, events_of

AWS = [
    {
        "NotBefore": "21 Jan 2019 09:00:43 GMT",
        "Code": "system-reboot",
        "EventId": "instance-event-1",
        "State": "active",
    }
]
AZURE = {
    "DocumentIncarnation": 2,
    "Events": [
        {
            "EventId": "e1",
            "EventStatus": "Scheduled",
            "EventType": "Redeploy",
            "Resources": ["vm-1", "vm-2"],
            "NotBefore": "Mon, 11 Apr 2022 22:26:58 GMT",
        },
        {"EventId": "e2", "EventStatus": "Started", "EventType": "Freeze", "Resources": ["vm-1"]},
    ],
}
GCP = {
    "insertId": "i1",
    "protoPayload": {
        "methodName": "compute.instances.upcomingMaintenance",
        "resourceName": "projects/p/zones/z/instances/gpu-7",
        "metadata": {"maintenanceStatus": "PENDING", "windowStartTime": "2026-11-20T08:30:00Z"},
    },
}
VOLCENGINE = {
    "Result": {
        "SystemEvents": [
            {"Id": "s1", "Type": "GpuError_Redeploy", "Status": "Inquiring", "ResourceId": "i-1"},
            {"Id": "s2", "Type": "SystemFailure_Reboot", "Status": "Succeeded", "ResourceId": "i-2"},
        ]
    }
}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (AWS, [("provider.maintenance", "", 1548061243.0, False)]),
        (
            AZURE,
            [
                ("provider.redeploy", "vm-1", 1649716018.0, False),
                ("provider.redeploy", "vm-2", 1649716018.0, False),
                ("provider.maintenance", "vm-1", 0.0, False),
            ],
        ),
        (GCP, [("provider.maintenance", "gpu-7", 1795163400.0, False)]),
        (
            VOLCENGINE,
            [("provider.redeploy", "i-1", 0.0, False), ("provider.host_failure", "i-2", 0.0, True)],
        ),
    ],
)
def test_every_shape_tells_what_happens_to_which_machine_and_when(document: Any, expected: list[Any]) -> None:
    found = events_of(document)

    assert [(one.fault, one.machine, one.begins_at, one.is_over) for one in found] == expected
    assert len({one.reading(1.0).origin for one in found} | {""}) >= 2


def test_an_event_that_is_over_takes_its_fault_back() -> None:
    (event,) = events_of([AWS[0] | {"State": "completed"}])

    assert event.reading(5.0).kind == "cleared"


@settings(max_examples=40)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["Events", "protoPayload", "SystemEvents", "Result", "EventId", "Code", "NotBefore"]
                ),
                inner,
            )
        ),
        max_leaves=12,
    )
)
def test_no_document_raises_anything_else(document: Any) -> None:
    with suppress(NotAnEvent):
        assert all(one.reading(1.0).origin for one in events_of(document))


def test_what_is_no_event_is_told_which_shapes_there_are() -> None:
    with pytest.raises(NotAnEvent, match="a document of Azure with Events"):
        events_of({"Event": []})


@pytest.mark.parametrize(
    "content", [b"[" * 200_000, b'{"id": "a\\u0000b"}', b"\xff"], ids=["deep", "nul", "bytes"]
)
def test_a_message_around_what_cannot_be_read_is_no_event(content: bytes) -> None:
    data = base64.b64encode(content).decode()
    with pytest.raises(NotAnEvent):
        unwrapped({"subscription": "s", "message": {"data": data}})
