"""The OpenAPI document, generated from the types that parse requests and the limits of the contract."""
