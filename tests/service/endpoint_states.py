"""States of an endpoint file that show whether they are whole."""

from sluice.v1 import endpoint_pb2, model_pb2


def state(number: int) -> list[endpoint_pb2.Endpoint]:
    """`number` endpoints; the version of each is `number` too."""
    return [
        endpoint_pb2.Endpoint(
            name=f"endpoint-{index}",
            task=model_pb2.TASK_CHAT,
            entities=[endpoint_pb2.ServedEntity(name="a", model="a" * 200, traffic_percentage=100)],
            config_version=number,
        )
        for index in range(number)
    ]
