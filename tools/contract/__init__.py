"""Generators that read the contract: protoc plugins, the clients' packages, and the stored release."""
