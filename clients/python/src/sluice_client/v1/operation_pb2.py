"""The messages of sluice/v1/operation.proto. Made by `make generate`."""

from sluice_client.descriptors import declare

declare("sluice/v1/operation.proto", globals())
