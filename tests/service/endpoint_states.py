"""States of an endpoint file that show whether they are whole."""

from service.registry.description import Endpoint, ServedEntity, Task


def state(number: int) -> list[Endpoint]:
    """`number` endpoints; the version of each is `number` too."""
    entities = (ServedEntity("a", "a" * 200, 100),)
    return [
        Endpoint(f"endpoint-{index}", Task.CHAT, entities, created_ns=index, updated_ns=number, config_version=number)
        for index in range(number)
    ]
