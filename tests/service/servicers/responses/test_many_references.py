"""Many references to items of stored responses: each response is read once, in whatever order they are."""

from __future__ import annotations

import pytest
from sluice.v1 import content_pb2, response_item_pb2, response_pb2

from service.answering.item_references import with_items
from service.generation.errors import InvalidRequest
from service.storage.responses.port import ResponseRecord

MAX_BYTES = 1 << 20
NUM_ITEMS = 50


def message(text: str) -> response_item_pb2.InputItem:
    content = [content_pb2.ContentPart(text=text)]
    return response_item_pb2.InputItem(
        message=response_item_pb2.InputMessage(role=content_pb2.ROLE_USER, content=content)
    )


def record(name: str) -> ResponseRecord:
    """Return a response to many items."""
    items = [message(f"{name}{number}") for number in range(NUM_ITEMS)]
    request = response_pb2.CreateResponseRequest(input=items)
    response = response_item_pb2.Response(id=name)
    output = response.output.add(id=f"msg_{name}_0")
    output.message.content.add(text=f"answer {name}")
    return ResponseRecord("", name, 0, "", request.SerializeToString(), response.SerializeToString())


class Store:
    """Stored responses, of which any number exists, with the ids that were read."""

    def __init__(self) -> None:
        self.read_ids: list[str] = []

    async def read(self, response_id: str) -> ResponseRecord | None:
        self.read_ids.append(response_id)
        return record(response_id) if response_id.startswith("r") else None

    async def texts(self, *ids: str, max_bytes: int = MAX_BYTES) -> list[str]:
        """Return the texts of the items that references name."""
        request = response_pb2.CreateResponseRequest()
        for item_id in ids:
            request.input.add().reference.id = item_id
        request.input.append(message("new"))
        found = await with_items(request, self.read, max_bytes)
        assert request.input[0].HasField("reference")  # the request is unchanged
        return [item.message.content[0].text for item in found.input]


async def test_each_response_is_read_once() -> None:
    store = Store()
    texts = await store.texts("msg_r1_in3", "msg_r2_0", "msg_r1_in49", "msg_r2_in0", "msg_r1_0", "msg_r1_in3")
    assert texts == ["r13", "answer r2", "r149", "r20", "answer r1", "r13", "new"]
    assert store.read_ids == ["r1", "r2"]


@pytest.mark.parametrize(
    "unknown",
    [
        "msg_r1_in50", "rs_r1_in3", "msg_r1_in03", "msg_r1_1", "msg_x_in0", "msg_r1_in", "r1", "msg_r1_in-1",
        f"msg_r1_in{'9' * 200}", "msg_r1_in\N{ARABIC-INDIC DIGIT THREE}",
    ],
)  # fmt: skip
async def test_unknown_item_is_named(unknown: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        await Store().texts("msg_r1_in3", unknown)
    assert error.value.field == "input[1].reference.id"


async def test_limits_are_named() -> None:
    with pytest.raises(InvalidRequest, match="more than 20 bytes"):
        await Store().texts("msg_r1_in3", "msg_r2_in3", max_bytes=20)
    store = Store()
    with pytest.raises(InvalidRequest, match="more than 1024 responses") as error:
        await store.texts(*(f"msg_r{number}_0" for number in range(1025)))
    assert (error.value.field, store.read_ids) == ("input[1024].reference.id", [])
