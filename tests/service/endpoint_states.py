"""States of an endpoint file from which a test can detect a torn write."""

from service.deployment.endpoint_document import EndpointDocument
from service.registry.description import Endpoint, ServedEntity, Task


def state(number: int) -> EndpointDocument:
    """Return `number` endpoints, each with the version `number`."""
    entities = (ServedEntity("a", "a" * 200, 100),)
    endpoints = [
        Endpoint(f"endpoint-{index}", Task.CHAT, entities, created_ns=index, updated_ns=number, config_version=number)
        for index in range(number)
    ]
    return EndpointDocument({endpoint.name: endpoint for endpoint in endpoints})
